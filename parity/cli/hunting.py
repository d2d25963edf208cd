"""What `parity fuzz` does once it is understood: a crew, a log, the hunt, its finds kept, the report."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import closing
from pathlib import Path

import msgspec
from rich.console import Console

from oracle.interpreter import set_model_runner
from parity import runlog
from parity.cli.output import until_the_reader_leaves
from parity.errors import ExitCode
from parity.fuzz import log
from parity.fuzz.campaign import SHRUNK_AT_ONCE, Campaign, Plan, shrink_all
from parity.fuzz.cluster import Cluster
from parity.fuzz.crew import Alone, Crew, Processes
from parity.fuzz.found import found_of, keep
from parity.fuzz.size import Size, size
from parity.fuzz.tally import Tally
from parity.fuzz.unit import Find, Reduced
from parity.fuzz.worker import Post
from parity.oracle_side import find_pin, measure_oracle
from parity.records.parse import records_digest
from parity.report.hunt import Hunted, Kept, hunt_object, hunt_text
from parity.report.hunt_progress import HuntProgress
from parity.report.progress import RunProgress
from parity.root import project_root
from parity.runfile import FOLDER, describe_machine, describe_tree, shown, stamp


class Request(msgspec.Struct, frozen=True):
    """A hunt as it was asked for, and who is to do it: `jobs` processes, null for one a core, or a cluster."""

    plan: Plan
    jobs: int | None
    cluster: str | None
    pin: str | None
    out: Path | None


def hunt(request: Request, *, as_json: bool) -> int:
    """Hunt, keep what is found, print. The exit code: 0 nothing new, 1 something, 2 a side failed or nothing was played."""
    began = time.monotonic()
    plan = request.plan
    root = project_root()
    pin = find_pin(root, request.pin)
    measured = measure_oracle(root, pin)
    commit, dirty = describe_tree(root)
    header = log.Header(
        format=log.FORMAT,
        pin=runlog.Pin(name=pin.name, version=pin.version, measured=measured.version),
        commit=commit,
        dirty=dirty,
        machine=describe_machine(),
        records=records_digest(root),
        model_runner=set_model_runner(),
        level=plan.level,
        seed=plan.seed,
        size=plan.size,
        policies=plan.policies,
        shard=plan.shard,
    )
    folder = request.out or root / FOLDER / "hunts" / f"{stamp()}-{plan.level}-{plan.seed}"
    post = Post(root, pin, measured, plan.level, plan.policies)
    with log.Writer(folder, header) as writer, closing(_crew(post, request)) as crew:
        hunted = _Hunt(plan, root, header, writer, crew).run(began)
    _print(hunted, as_json=as_json)
    return int(exit_code(hunted))


class _Hunt:
    """The hunt itself, and what of it must survive an interruption: each unit and each find is on the disk as it comes."""

    def __init__(self, plan: Plan, root: Path, header: log.Header, writer: log.Writer, crew: Crew) -> None:
        self._plan = plan
        self._root = root
        self._header = header
        self._writer = writer
        self._crew = crew
        self._kept: dict[str, Kept] = {}
        self._progress = HuntProgress()

    def run(self, began: float) -> Hunted:
        campaign = Campaign(
            self._plan, self._crew, self._progress.hunted, lambda done: self._writer.put(log.UnitLine(done))
        )
        interrupted = False
        with self._progress:
            try:
                tally = campaign.run()
                self._shrink(tally)
            except KeyboardInterrupt:
                interrupted = True
                tally = campaign.tally
        for find in tally.finds():
            if interrupted and find.fingerprint not in self._kept:
                self._keep(Reduced(find, 0, "interrupted"))
        told = {find.fingerprint for find in tally.finds()}
        kept = [kept for kept in self._kept.values() if kept.reduced.find.fingerprint in told]
        kept.sort(key=lambda one: _first_told(one.reduced.find))
        return Hunted(
            header=self._header,
            tally=tally,
            kept=tuple(kept),
            left=len(tally.finds()) - len(kept),
            wall=time.monotonic() - began,
            jobs=self._crew.jobs,
            folder=shown(self._root, self._writer.path.parent),
            interrupted=interrupted,
        )

    def _shrink(self, tally: Tally) -> None:
        finds = sorted(tally.finds(), key=_first_told)
        if not self._plan.keep_going:
            finds = finds[:SHRUNK_AT_ONCE]
        if not finds:
            return
        self._progress.shrinking(0, len(finds))

        def done(reduced: Reduced) -> None:
            self._keep(reduced)
            self._progress.shrinking(len(self._kept), len(finds))

        shrink_all(finds, self._crew, done)

    def _keep(self, reduced: Reduced) -> None:
        self._writer.put(log.FindLine(reduced))
        kept = kept_find(self._root, self._header, reduced)
        self._kept[reduced.find.fingerprint] = kept


def _first_told(find: Find) -> tuple[bool, Size]:
    """Differences before what both sides do, and the smallest first."""
    return find.attribution == "mirrored", size(find.document)


def kept_find(root: Path, header: log.Header, reduced: Reduced) -> Kept:
    """The find in a file of its own, unless a smaller one of its fingerprint is there."""
    found = found_of(reduced.find, header.pin.measured, header.seed, reduced.attempts)
    return Kept(reduced, shown(root, keep(found, root)))


def _crew(post: Post, request: Request) -> Crew:
    if request.cluster is not None:
        return Cluster(post, request.cluster)
    jobs = request.jobs or (1 if request.plan.level == "serve" else os.cpu_count() or 1)
    return Alone(post, RunProgress()) if jobs == 1 else Processes(post, jobs)


def exit_code(hunted: Hunted) -> ExitCode:
    """What the hunt comes to."""
    if hunted.interrupted:
        return ExitCode.INTERRUPTED
    if any(find.attribution == "harness" for find in hunted.tally.finds()):
        return ExitCode.HARNESS
    if hunted.failed or not hunted.tally.scenarios:
        return ExitCode.INCONCLUSIVE
    return ExitCode.FINDINGS if hunted.found else ExitCode.OK


def _print(hunted: Hunted, *, as_json: bool) -> None:
    with until_the_reader_leaves():
        if as_json:
            json.dump(hunt_object(hunted), sys.stdout)
            print()
        else:
            Console(soft_wrap=True, highlight=False).print(hunt_text(hunted))

"""What `parity fuzz` does once it is understood: a crew, a log, the hunt, its finds kept, the report."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec
from rich.console import Console

from oracle.interpreter import set_model_runner
from parity import runlog
from parity.errors import ExitCode, UsageError
from parity.fuzz import log
from parity.fuzz.campaign import SHRINK_SECONDS, SHRUNK_AT_ONCE, Campaign, Plan, shrink_all
from parity.fuzz.cluster import Cluster
from parity.fuzz.crew import Alone, Crew, Processes
from parity.fuzz.found import found_of, keep
from parity.fuzz.size import Size, size
from parity.fuzz.tally import Tally, tally_of
from parity.fuzz.unit import Find, Reduced, verdict_of
from parity.fuzz.worker import Post
from parity.interrupts import telling
from parity.oracle_side import find_pin, measure_oracle
from parity.records.parse import records_digest
from parity.report.hunt import Hunted, Kept, hunt_object, hunt_text
from parity.report.hunt_progress import HuntProgress
from parity.report.progress import RunProgress
from parity.root import project_root
from parity.runfile import FOLDER, describe_machine, describe_tree, shown, stamp


class Spans(msgspec.Struct, frozen=True):
    """Where a hunt's wall time went, in seconds: until the first unit began, over the units, over shrinking."""

    starting: float
    hunting: float
    shrinking: float

    @property
    def whole(self) -> float:
        return self.starting + self.hunting + self.shrinking


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
    folder = request.out or root / FOLDER / "hunts" / f"{stamp()}-{plan.level}-{plan.seed}"
    _check_folder(folder)
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
    post = Post(root, pin, measured, plan.level, plan.policies)
    with (
        log.Writer(folder, header) as writer,
        telling(_interrupted(root, writer)),
        HuntProgress() as progress,
        closing(_crew(post, request, progress)) as crew,
    ):
        hunt_ = _Hunt(plan, root, header, writer, crew, progress, began)
        hunted = hunt_.run()
    _print(hunted, hunt_.spans, plan.seconds, as_json=as_json)
    return int(_exit_code(hunted))


def _interrupted(root: Path, writer: log.Writer) -> str:
    kept = shown(root, writer.path)
    return f"interrupted: ending both sides; what was done is in {kept} (once more ends at once)"


def _check_folder(folder: Path) -> None:
    """Before anything is started: whether a hunt's log can be there. Raises UsageError."""
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    if not nearest.is_dir():
        raise UsageError(f"--out {folder}: {nearest} is no folder", hint="name a folder that is new or empty")


def merge(folders: Sequence[Path], *, as_json: bool) -> int:
    """Join hunts of one seed that were split over machines, or cut short; a unit that is in two counts once."""
    files = [log.file_of(folder).resolve() for folder in folders]
    for index, folder in enumerate(folders):
        if files[index] in files[:index]:
            raise UsageError(f"{folder} is given twice", hint="name each part once")
    logs = [log.read_log(folder) for folder in folders]
    names = [str(folder) for folder in folders]
    log.check_parts(logs, names)
    tally = tally_of(done for one in logs for done in one.units)
    root = project_root()
    kept: dict[str, Kept] = {}
    for one in logs:
        for reduced in one.finds:
            if reduced.find.fingerprint not in kept:
                kept[reduced.find.fingerprint] = _kept(root, one.header, reduced)
    hunted = Hunted(
        header=logs[0].header,
        tally=tally,
        kept=tuple(kept.values()),
        left=sum(find.fingerprint not in kept for find in tally.finds()),
        wall=tally.spent.whole,
        jobs=None,
        folder=Path(names[0]) if len(names) == 1 else None,
        shards=tuple(sorted({one.header.shard for one in logs})),
        logs=_logs(folders, logs),
    )
    _print(hunted, as_json=as_json)
    return int(_exit_code(hunted))


def _logs(folders: Sequence[Path], logs: Sequence[log.Log]) -> dict[str, Path]:
    """The first log that has it, by a find's fingerprint."""
    places: dict[str, Path] = {}
    for folder, one in zip(folders, logs, strict=True):
        for find in (find for done in one.units for find in done.finds):
            places.setdefault(find.fingerprint, log.file_of(folder))
    return places


class _Hunt:
    """The hunt itself, and what of it must survive an interruption: each unit and each find is on the disk as it comes.

    Its time runs from `began`, by the monotonic clock; `spans` is where it went.
    """

    def __init__(
        self,
        plan: Plan,
        root: Path,
        header: log.Header,
        writer: log.Writer,
        crew: Crew,
        progress: HuntProgress,
        began: float,
    ) -> None:
        self._plan = plan
        self._root = root
        self._header = header
        self._writer = writer
        self._crew = crew
        self._progress = progress
        self._began = began
        self._kept: dict[str, Kept] = {}
        self.spans = Spans(0.0, 0.0, 0.0)

    def run(self) -> Hunted:
        campaign = Campaign(
            self._plan,
            self._crew,
            self._progress.hunted,
            lambda done: self._writer.put(log.UnitLine(done)),
            self._began,
        )
        interrupted = False
        hunted_until = None
        self._progress.phase("hunting: starting both sides")
        try:
            tally = campaign.run()
            hunted_until = time.monotonic()
            self._shrink(tally)
        except KeyboardInterrupt:
            interrupted = True
            tally = campaign.tally
        self._progress.show("ending both sides")
        now = time.monotonic()
        hunted_until = hunted_until or now
        ready = campaign.ready or hunted_until
        self.spans = Spans(ready - self._began, hunted_until - ready, now - hunted_until)
        for find in tally.finds():
            if interrupted and find.fingerprint not in self._kept:
                self._keep(Reduced(find, 0, "interrupted"))
        return self._hunted(tally, interrupted=interrupted)

    def _hunted(self, tally: Tally, *, interrupted: bool) -> Hunted:
        told = {find.fingerprint for find in tally.finds()}
        kept = [kept for kept in self._kept.values() if kept.reduced.find.fingerprint in told]
        kept.sort(key=lambda one: _first_told(one.reduced.find))
        return Hunted(
            header=self._header,
            tally=tally,
            kept=tuple(kept),
            left=len(tally.finds()) - len(kept),
            wall=time.monotonic() - self._began,
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
        self._progress.phase(f"shrinking what was found: 0 of {len(finds)}")

        def done(reduced: Reduced) -> None:
            self._keep(reduced)
            self._progress.phase(f"shrinking what was found: {len(self._kept)} of {len(finds)}")

        shrink_all(finds, self._crew, done, until=self._shrinking_ends())

    def _shrinking_ends(self) -> float | None:
        if self._plan.seconds is None:
            return None
        return max(self._began + self._plan.seconds, time.monotonic() + SHRINK_SECONDS)

    def _keep(self, reduced: Reduced) -> None:
        self._writer.put(log.FindLine(reduced))
        kept = _kept(self._root, self._header, reduced)
        self._kept[reduced.find.fingerprint] = kept


def _first_told(find: Find) -> tuple[int, bool, Size]:
    """The worst verdict first, differences before what both sides do, and the smallest first."""
    return verdict_of(find).severity, find.attribution == "mirrored", size(find.document)


def _kept(root: Path, header: log.Header, reduced: Reduced) -> Kept:
    """The find in a file of its own, unless a smaller one of its fingerprint is there."""
    found = found_of(reduced.find, header.pin.measured, header.seed, reduced.attempts)
    return Kept(reduced, shown(root, keep(found, root)))


def _crew(post: Post, request: Request, progress: HuntProgress) -> Crew:
    if request.cluster is not None:
        progress.phase(f"asking the scheduler at {request.cluster}")
        return Cluster(post, request.cluster)
    jobs = request.jobs or (1 if request.plan.level == "serve" else os.cpu_count() or 1)
    lines = RunProgress(say=progress.say)
    return Alone(post, lines) if jobs == 1 else Processes(post, jobs, lines)


def _exit_code(hunted: Hunted) -> ExitCode:
    if hunted.interrupted:
        return ExitCode.INTERRUPTED
    if any(find.attribution == "harness" for find in hunted.tally.finds()):
        return ExitCode.HARNESS
    if hunted.failed or not hunted.tally.scenarios:
        return ExitCode.INCONCLUSIVE
    return ExitCode.FINDINGS if hunted.found else ExitCode.OK


def _print(
    hunted: Hunted, spans: Spans | None = None, seconds: float | None = None, *, as_json: bool
) -> None:
    if as_json:
        whole = hunt_object(hunted)
        if spans is not None:
            whole["seconds"] |= msgspec.to_builtins(spans)
        json.dump(whole, sys.stdout)
        print()
        return
    Console(soft_wrap=True, highlight=False).print(hunt_text(hunted))
    if spans is not None:
        print(where_the_time_went(spans, seconds))


def where_the_time_went(spans: Spans, asked: float | None) -> str:
    """One line; `asked` are the seconds that the hunt was to take, null where it was a number of scenarios."""
    line = f"of {spans.whole:.1f} s: {spans.starting:.1f} s until the first unit began, {spans.hunting:.1f} s of units"
    if spans.shrinking >= 0.1:
        line += f", {spans.shrinking:.1f} s of shrinking"
    if asked is not None and spans.whole > asked:
        line += f" (--max-time {asked:g} bounds what is begun, not what is under way)"
    return line

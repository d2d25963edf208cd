"""One run from start to end: what is asked, both sides started, every case played, judged, written and decided."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from engine.policies import TABLE, PolicyError, resolve
from oracle.pins import Pin
from oracle.verify import Measured
from parity import runlog
from parity.engine_side import EngineSide
from parity.errors import InconclusiveError, Interrupted, UsageError
from parity.finding import Judged, Outcome, Plays, ScenarioResult
from parity.judge import judge
from parity.oracle_side import find_pin, measure_oracle, start_oracle
from parity.play import play_case
from parity.process_side import ProcessSide
from parity.records.match import Book
from parity.records.parse import load_records, records_digest
from parity.records.record import Diverging, Record
from parity.report.progress import RunProgress
from parity.runfile import describe_machine, describe_tree, point_latest, run_path
from parity.scenario import Case
from parity.suite import load_suite, select
from parity.verdicts import Context, Replay, conclude, decide_scenario

DEFAULT_CHOICE = "pin"


class Ask(msgspec.Struct, frozen=True):
    """What a run is asked to do. `ids` and `family` choose a part of the suite; neither means all of it."""

    root: Path
    pin: str | None = None
    ids: tuple[str, ...] = ()
    family: str | None = None
    policies: dict[str, str] = {}
    repeat: int = 1
    out: Path | None = None

    @property
    def partial(self) -> bool:
        return bool(self.ids) or self.family is not None


class Run(msgspec.Struct, frozen=True):
    """A finished run.

    `start_seconds` is what the oracle's imports took, `wall_seconds` the whole suite after them; the sides play at
    once, so the harness's own share in `seconds` is what the slower one leaves of it.
    """

    pin: runlog.Pin
    measured: Measured
    hello: dict[str, Any]
    partial: bool
    policies: dict[str, str]
    outcome: Outcome
    seconds: runlog.Seconds
    wall_seconds: float
    start_seconds: float
    path: Path


def parse_policies(choices: Sequence[str]) -> dict[str, str]:
    """`NAME=VALUE` choices as a table, the pin's own left out. Raises UsageError naming the nearest."""
    chosen: dict[str, str] = {}
    for choice in choices:
        name, separator, value = choice.partition("=")
        if not separator:
            raise UsageError(f"--policy takes NAME=VALUE, not {choice!r}")
        if chosen.setdefault(name, value) != value:
            raise UsageError(f"--policy {name} is given twice, with {chosen[name]} and {value}")
    try:
        resolve(chosen)
    except PolicyError as error:
        raise UsageError(str(error)) from None
    return {name: value for name, value in chosen.items() if value != DEFAULT_CHOICE}


def run(ask: Ask, progress: RunProgress) -> Run:
    """Play what is asked and decide it.

    Raises OracleError when the reference is not the pin or does not start, UsageError for a selection that is
    empty, ScenarioError and RecordError before anything runs, RunFileError when the run cannot be written.
    """
    pin = find_pin(ask.root, ask.pin)
    suite = load_suite(ask.root)
    chosen = select(suite, ask.ids, ask.family)
    records = load_records(ask.root)
    path = run_path(ask.root, ask.out)
    measured = measure_oracle(ask.root, pin)
    claimed = runlog.Pin(name=pin.name, version=pin.version, measured=measured.version)
    with ExitStack() as stack:
        oracle, hello, start_seconds = _started(ask.root, pin, measured, stack, progress)
        header = _header(ask, claimed, hello)
        writer = stack.enter_context(runlog.Writer(path, header))
        session = _Session(ask, records, suite, oracle, writer)
        try:
            outcome, seconds, wall = session.play(chosen, progress)
        except KeyboardInterrupt:
            raise Interrupted(
                f"interrupted; what was played so far is in {writer.unfinished}, which is no finished run"
            ) from None
        if not outcome.scenarios:
            raise InconclusiveError("nothing was examined")
        writer.finish(outcome, seconds)
    if ask.out is None:
        point_latest(ask.root, path)
    return Run(
        pin=claimed,
        measured=measured,
        hello=hello,
        partial=ask.partial,
        policies=ask.policies,
        outcome=outcome,
        seconds=seconds,
        wall_seconds=wall,
        start_seconds=start_seconds,
        path=path,
    )


def play_one(
    root: Path, pin_name: str | None, case: Case, policies: dict[str, str], progress: RunProgress
) -> tuple[Plays, Plays]:
    """Play one case on both sides and keep nothing: what `parity show` needs."""
    pin = find_pin(root, pin_name)
    measured = measure_oracle(root, pin)
    with ExitStack() as stack:
        oracle, _, _ = _started(root, pin, measured, stack, progress)
        return play_case(case, oracle, EngineSide(policies), repeat=1)


def _started(
    root: Path, pin: Pin, measured: Measured, stack: ExitStack, progress: RunProgress
) -> tuple[ProcessSide, dict[str, Any], float]:
    """The oracle's process, ready to play; `stack` ends it."""
    began = time.perf_counter()
    oracle = start_oracle(root, pin)
    stack.callback(oracle.close)
    with progress.starting(f"starting vLLM {measured.version}"):
        hello = oracle.hello()
    if hello["version"] != measured.version:
        raise InconclusiveError(
            f"the driver reports vLLM {hello['version']}, and {measured.version} was measured",
            hint="run `parity oracle verify`",
        )
    return oracle, hello, time.perf_counter() - began


def _header(ask: Ask, pin: runlog.Pin, hello: dict[str, Any]) -> runlog.Header:
    commit, dirty = describe_tree(ask.root)
    return runlog.Header(
        format=runlog.FORMAT,
        pin=pin,
        commit=commit,
        dirty=dirty,
        machine=describe_machine(),
        records=records_digest(ask.root),
        model_runner=str(hello.get("model_runner", "unknown")),
        policies=ask.policies,
        partial=ask.partial,
    )


class _Session:
    """The playing itself, and the parts of a run that its steps share."""

    def __init__(
        self,
        ask: Ask,
        records: Sequence[Record],
        suite: Sequence[Case],
        oracle: ProcessSide,
        writer: runlog.Writer,
    ) -> None:
        self._ask = ask
        self._records = records
        self._suite = {case.id: case for case in suite}
        self._oracle = oracle
        self._writer = writer
        self._seconds = {"oracle": 0.0, "subject": 0.0}

    def play(self, chosen: Sequence[Case], progress: RunProgress) -> tuple[Outcome, runlog.Seconds, float]:
        """The outcome, each side's seconds, and those of the whole."""
        began = time.perf_counter()
        book = Book(self._records, self._ask.policies)
        context = self._context()
        entries = list(self._diverging())
        subject = EngineSide(self._ask.policies)
        results: list[ScenarioResult] = []
        with progress.playing(len(chosen), len(entries)):
            for case in chosen:
                judged, left, right = self._judge(case, subject)
                result = decide_scenario(judged, book, context)
                self._writer.scenario(result, left, right)
                results.append(result)
                progress.played(result)
            replays = []
            for record, entry in entries:
                replays.append(self._replay(record, entry))
                progress.played()
        outcome = conclude(results, book, context, replays)
        wall = time.perf_counter() - began
        own = max(0.0, wall - max(self._seconds.values()))
        return outcome, runlog.Seconds(harness=own, **self._seconds), wall

    def _context(self) -> Context:
        return Context(
            scenarios=frozenset(self._suite),
            choices={policy.name: tuple(policy.values) for policy in TABLE},
            policies=self._ask.policies,
            partial=self._ask.partial,
            today=datetime.datetime.now(datetime.UTC).date(),
        )

    def _judge(self, case: Case, subject: EngineSide) -> tuple[Judged, Plays, Plays]:
        left, right = play_case(case, self._oracle, subject, self._ask.repeat)
        self._seconds["oracle"] += left.seconds
        self._seconds["subject"] += right.seconds
        return judge(case, left, right, mirrors=not subject.policies), left, right

    def _diverging(self) -> Iterator[tuple[Record, Diverging]]:
        """What accepted records say of the engine's other choices; a whole run at the pin's choices replays it."""
        if self._ask.partial or self._ask.policies:
            return
        for record in self._records:
            if record.covers and record.policy is not None and self._knows(record.policy):
                yield from (
                    (record, entry) for entry in record.front.diverging if entry.scenario in self._suite
                )

    def _knows(self, policy: tuple[str, str]) -> bool:
        """A policy that the engine does not have makes its record an ORPHAN, and cannot be replayed."""
        return any(row.name == policy[0] and policy[1] in row.values for row in TABLE)

    def _replay(self, record: Record, entry: Diverging) -> Replay:
        assert record.policy is not None, "only records with a policy have diverging entries replayed"
        name, value = record.policy
        judged, _, _ = self._judge(self._suite[entry.scenario], EngineSide({name: value}))
        return Replay(record.id, entry, judged)

"""One run from start to end: what is asked, both sides started, every case played, judged, written and decided."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import msgspec

from engine.policies import TABLE
from oracle.interpreter import set_model_runner
from oracle.verify import Measured
from parity import runlog
from parity.ask import Ask, choose, is_deep_enough
from parity.errors import InconclusiveError, Interrupted, ParityError, UsageError
from parity.finding import Judged, NotCompared, Outcome, Plays, ScenarioResult
from parity.interrupts import uninterrupted
from parity.judge import judge
from parity.oracle_side import find_pin, measure_oracle
from parity.play import play_case
from parity.records.match import Book
from parity.records.record import Diverging, Record
from parity.report.progress import RunProgress
from parity.runfile import describe_machine, describe_tree, point_latest, run_path
from parity.scenario import Case, ServeScenario
from parity.serve.side import Times, in_playing_order
from parity.sides import Sides
from parity.subjects.choice import sort_out
from parity.subjects.held import HeldSubjects, held_by
from parity.subjects.lens import Lens
from parity.suite import load_suite
from parity.verdicts import Context, Replay, conclude, decide_scenario


class Run(msgspec.Struct, frozen=True):
    """A finished run.

    `start_seconds` is what the oracle's imports took, `wall_seconds` the whole suite after them; the sides play at
    once, so the harness's own share in `seconds` is what the slower one leaves of each scenario, starts and ends of
    its servers included. `servers` tells what each side's servers cost, and `logs` where they wrote. `pin` and
    `measured` are null where the reference was another subject, `against`.
    """

    pin: runlog.Pin | None
    measured: Measured | None
    subject: runlog.Held
    against: runlog.Held | None
    model_runner: str
    partial: bool
    policies: dict[str, str]
    outcome: Outcome
    seconds: runlog.Seconds
    wall_seconds: float
    start_seconds: float
    servers: Mapping[str, Times]
    logs: Path | None
    path: Path
    records: Path  # the folder of the subject's
    passed_over: int = 0  # of them, those of another profile, which decide nothing


def run(ask: Ask, progress: RunProgress) -> Run:
    """Play what is asked and decide it.

    Raises, before a file is written, OracleError when the reference is not the pin or does not start, UsageError for a
    selection that is empty and for a server that cannot be asked for, ScenarioError and RecordError; RunFileError when
    the run cannot be written. What it raises later names the file that what was played is in.
    """
    pin = find_pin(ask.root, ask.pin)
    suite = load_suite(ask.root)
    held = held_by(ask)
    compared, others = sort_out(choose(ask, suite), held.all)
    held.check(compared, others)
    records = held.load_records(ask.root)
    replays = list(_replays(ask, held, records, suite))
    path = run_path(ask.root, ask.out)
    measured = None if held.against else measure_oracle(ask.root, pin)
    claimed = None if measured is None else runlog.Pin(pin.name, pin.version, measured.version)
    with ExitStack() as stack:
        sides = stack.enter_context(closing(Sides(ask, pin, measured, progress, held)))
        sides.prepare([*((case, ask.policies) for case in compared), *(replay.play for replay in replays)])
        header = _header(ask, claimed, sides)
        writer = stack.enter_context(runlog.Writer(path, header))
        session = _Session(ask, held, records, suite, sides, writer)
        with _telling_what_is_left(writer.unfinished):
            outcome, seconds, wall = session.play(compared, others, replays, progress)
            if not outcome.scenarios:
                raise InconclusiveError("nothing was examined")
            with uninterrupted():
                writer.finish(outcome, seconds)
    if ask.out is None:
        point_latest(ask.root, path)
    return Run(
        pin=claimed,
        measured=measured,
        subject=header.subject,
        against=header.against,
        model_runner=header.model_runner,
        partial=ask.partial,
        policies=ask.policies,
        outcome=outcome,
        seconds=seconds,
        wall_seconds=wall,
        start_seconds=sides.start_seconds,
        servers=sides.times,
        logs=sides.logs,
        path=path,
        records=held.subject.records,
        passed_over=session.book.passed_over,
    )


def play_one(ask: Ask, case: Case, progress: RunProgress) -> tuple[Plays, Plays, Lens]:
    """Play one case on both sides and keep nothing: what `parity show` needs, and the lens that it is seen through."""
    pin = find_pin(ask.root, ask.pin)
    held = held_by(ask)
    compared, others = sort_out([case], held.all)
    if not compared:
        raise UsageError(f"{case.id} is {others[0].why}: {', '.join(others[0].missing)}")
    measured = None if held.against else measure_oracle(ask.root, pin)
    with closing(Sides(ask, pin, measured, progress, held)) as sides:
        sides.prepare([(case, ask.policies)])
        left, right = play_case(case, *sides.pair(case, ask.policies), times=1)
    lens = held.lens(case)
    return lens.plays(left), lens.plays(right), lens


@contextmanager
def _telling_what_is_left(part: Path) -> Iterator[None]:
    """Whatever ends the run in its middle, the user learns where the rest of it is."""
    left = f"what was played so far is in {part}, which is no finished run"
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; {left}") from None
    except ParityError as error:
        if str(part) not in error.message:
            error.message += f"; {left}"
        raise
    except Exception as error:
        error.add_note(left)
        raise


class _ToReplay(msgspec.Struct, frozen=True):
    """What an accepted record says of one of the engine's other choices, and the case that shows it."""

    record: Record
    entry: Diverging
    case: Case
    policies: dict[str, str]

    @property
    def play(self) -> tuple[Case, dict[str, str]]:
        return self.case, self.policies


def _replays(
    ask: Ask, held: HeldSubjects, records: Sequence[Record], suite: Sequence[Case]
) -> Iterator[_ToReplay]:
    """What a whole run at the pin's choices replays; only the engine has other choices.

    A policy that the engine does not have makes its record an ORPHAN, and cannot be replayed.
    """
    if ask.chosen or ask.policies or not held.subject.subject.door.inprocess:
        return
    known = {(row.name, value) for row in TABLE for value in row.values}
    compared, _ = sort_out([case for case in suite if is_deep_enough(ask, case)], held.all)
    cases = {case.id: case for case in compared}
    for record in records:
        if record.covers and record.policy is not None and record.policy in known:
            for entry in record.front.diverging:
                if entry.scenario in cases:
                    yield _ToReplay(record, entry, cases[entry.scenario], dict([record.policy]))


def _header(ask: Ask, pin: runlog.Pin | None, sides: Sides) -> runlog.Header:
    commit, dirty = describe_tree(ask.root)
    return runlog.Header(
        format=runlog.FORMAT,
        pin=pin,
        commit=commit,
        dirty=dirty,
        machine=describe_machine(),
        records=sides.held.records_digest(ask.root),
        model_runner=str(sides.hello.get("model_runner") or set_model_runner()),
        policies=ask.policies,
        partial=ask.partial,
        subject=sides.held.line(sides.subject_version),
        against=sides.held.line_against(),
    )


class _Session:
    """The playing itself, and the parts of a run that its steps share."""

    def __init__(
        self,
        ask: Ask,
        held: HeldSubjects,
        records: Sequence[Record],
        suite: Sequence[Case],
        sides: Sides,
        writer: runlog.Writer,
    ) -> None:
        self._ask = ask
        self._held = held
        self._suite = {case.id: case for case in suite}
        self._sides = sides
        self._writer = writer
        self._seconds = {"oracle": 0.0, "subject": 0.0}
        self.book = Book(records, ask.policies, held.subject.subject.profile)
        self._busy = 0.0  # the slower side's time, scenario by scenario

    def play(
        self,
        chosen: Sequence[Case],
        others: Sequence[NotCompared],
        replays: Sequence[_ToReplay],
        progress: RunProgress,
    ) -> tuple[Outcome, runlog.Seconds, float]:
        """The outcome, each side's seconds, and those of the whole."""
        began = time.perf_counter()
        book = self.book
        context = self._context()
        results: list[ScenarioResult] = []
        with progress.playing(len(chosen), len(replays)):
            for case in _playing_order(chosen):
                judged, left, right = self._judge(case, self._ask.policies, book)
                lens = self._held.lens(case)
                result = msgspec.structs.replace(
                    decide_scenario(judged, book, context),
                    unobserved=sum(map(lens.unobserved, left.observations[:1])),
                    is_ahead=self._held.is_ahead(case),
                )
                self._writer.scenario(result, left, right, lens)
                results.append(result)
                progress.played(result)
            replayed = []
            for asked in replays:
                judged, _, _ = self._judge(asked.case, asked.policies, book)
                replayed.append(Replay(asked.record.id, asked.entry, judged))
                progress.played()
        for lost in self._sides.lost():  # no script is left whose play could tell
            if lost is not None:
                raise InconclusiveError(lost)
        results.sort(key=lambda result: result.id)
        outcome = conclude(results, book, context, replayed, others)
        wall = time.perf_counter() - began
        own = max(0.0, wall - self._busy)
        return outcome, runlog.Seconds(harness=own, **self._seconds), wall

    def _context(self) -> Context:
        return Context(
            scenarios=frozenset(self._suite),
            choices={policy.name: tuple(policy.values) for policy in TABLE},
            policies=self._ask.policies,
            partial=self._ask.chosen,
            today=datetime.datetime.now(datetime.UTC).date(),
        )

    def _judge(self, case: Case, policies: Mapping[str, str], book: Book) -> tuple[Judged, Plays, Plays]:
        before = self._around()
        oracle, subject = self._sides.pair(case, policies)
        left, right = play_case(case, oracle, subject, self._ask.times(case))
        lost = self._sides.lost()  # while the other side was still at it
        left, right = _with_loss(left, lost[0]), _with_loss(right, lost[1])
        self._seconds["oracle"] += left.seconds
        self._seconds["subject"] += right.seconds
        after = self._around()
        spent = (
            plays.seconds + new - old for plays, new, old in zip((left, right), after, before, strict=True)
        )
        self._busy += max(spent)
        known = book.known_outcomes(case.id)
        lens = self._held.lens(case)
        left, right = lens.plays(left), lens.plays(right)
        seen = msgspec.structs.replace(case, waive=[*case.waive, *lens.waivers()])
        mirrors = self._held.promises_parity and not policies
        return judge(seen, left, right, mirrors=mirrors, known=known), left, right

    def _around(self) -> tuple[float, float]:
        """What starts and ends of servers took so far, the oracle's and the subject's."""
        return self._sides.times["oracle"].around, self._sides.times["subject"].around


def _with_loss(plays: Plays, lost: str | None) -> Plays:
    """A server that ended by itself after its last script leaves nothing to rely on."""
    return plays if lost is None or plays.failure else msgspec.structs.replace(plays, failure=lost)


def _playing_order(cases: Sequence[Case]) -> list[Case]:
    """Levels plan and schedule by id, then the scripts grouped by server."""
    scripts = {case.id: case for case in cases if isinstance(case.scenario, ServeScenario)}
    served = in_playing_order(
        [case.scenario for case in scripts.values() if isinstance(case.scenario, ServeScenario)]
    )
    return [case for case in cases if case.id not in scripts] + [scripts[scenario.id] for scenario in served]

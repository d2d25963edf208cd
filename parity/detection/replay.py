"""A check of the levels plan and schedule with one side's observations given: what `parity check --quick` would say.

For a mutant of the engine only that is imported anew; for one of the judge this module is as well, and all that it uses.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from engine.policies import TABLE
from parity.detection.material import quick_cases
from parity.detection.recording import Shown, records_of, refreshed
from parity.engine_side import EngineSide
from parity.finding import Judged, Plays, ScenarioResult
from parity.judge import judge
from parity.observation import PlanError, Schedule, decode, plain
from parity.records.match import Book
from parity.records.parse import load_records
from parity.records.record import Diverging, Record
from parity.scenario import Case, Scenario
from parity.shapes import UNRECOGNISED
from parity.suite import load_suite
from parity.verdicts import Context, Replay, conclude, decide_scenario

Subject = Callable[[Case, Mapping[str, str]], Plays]  # plays a case under policies
SECONDS = 3  # a scenario: the slowest of the suite takes 0.1


class Seen(msgspec.Struct, frozen=True):
    """What a check says: its exit code, and the first scenario or record that is neither MATCH nor COVERED."""

    exit_code: int
    where: str | None
    verdict: str


class Check:
    """Cases, the records that decide about them, and what a run knows besides; `of` makes that of a checkout."""

    def __init__(self, cases: Sequence[Case], records: Sequence[Record], context: Context) -> None:
        self.cases = cases
        self.records = list(records)
        self.book = Book(self.records, {})
        self.context = context

    @classmethod
    def of(cls, root: Path) -> Check:
        """What `parity check --quick` would play and read there."""
        context = Context(
            scenarios=frozenset(case.id for case in load_suite(root)),
            choices={policy.name: tuple(policy.values) for policy in TABLE},
            policies={},
            partial=False,
            today=datetime.datetime.now(datetime.UTC).date(),
        )
        return cls(_shuffled(quick_cases(root)), load_records(root), context)

    def recording(self, shown: Sequence[Shown]) -> Check:
        """The same where these findings have accepted records as well, and the others are refreshed."""
        covered = {name for record in self.records if record.covers for name in _mirrored(record)}
        records = [*refreshed(self.records, shown), *records_of(shown, covered)]
        return Check(self.cases, records, self.context)

    def judged(self, oracle: Mapping[str, Plays], subject: Callable[[Case], Plays]) -> Iterator[Judged]:
        """Each scenario's findings, in an order that has nothing to do with what a scenario is about."""
        for case in self.cases:
            known = self.book.known_outcomes(case.id)
            yield judge(case, oracle[case.id], subject(case), known=known)

    def concluded(
        self, judged: Iterable[Judged], replays: Iterable[Replay] = (), *, early: bool = True
    ) -> Seen:
        """What the run says; `early` ends it with the first verdict that does not pass, as no later one mends it."""
        results: list[ScenarioResult] = []
        for one in judged:
            result = decide_scenario(one, self.book, self.context)
            results.append(result)
            if early and not result.verdict.passes:
                break
        else:
            outcome = conclude(results, self.book, self.context, list(replays))
            bad = [item.id for item in results if not item.verdict.passes]
            bad += [item.id for item in outcome.records if not item.verdict.passes]
            return Seen(int(outcome.exit_code), bad[0] if bad else None, outcome.verdict.value)
        outcome = conclude(results[-1:], Book([], {}), self.context)
        return Seen(int(outcome.exit_code), results[-1].id, results[-1].verdict.value)

    def replays(self, oracle: Mapping[str, Plays], subject: Subject) -> Iterator[Replay]:
        """Every `diverging` entry under its record's policy."""
        for record, entry, case in self._diverging():
            assert record.policy is not None
            plays = subject(case, dict([record.policy]))
            yield Replay(record.id, entry, judge(case, oracle[case.id], plays, mirrors=False))

    def asked(self) -> list[tuple[Case, dict[str, str]]]:
        """All that the engine plays in a check: the suite, then the replays under their policies."""
        replayed = [(case, dict([record.policy])) for record, _, case in self._diverging() if record.policy]
        return [(case, {}) for case in self.cases] + replayed

    def whole(self, oracle: Mapping[str, Plays], subject: Subject) -> Seen:
        """The check, ended by the first verdict that does not pass."""
        judged = self.judged(oracle, lambda case: subject(case, {}))
        return self.concluded(judged, self.replays(oracle, subject))

    def _diverging(self) -> Iterator[tuple[Record, Diverging, Case]]:
        cases = {case.id: case for case in self.cases}
        for record in self.records:
            if record.covers and record.policy is not None:
                for entry in record.front.diverging:
                    if entry.scenario in cases:
                        yield record, entry, cases[entry.scenario]


class Engine:
    """A subject that is played when it is asked; `side` is the class of a planted engine's side."""

    def __init__(self, side: type[EngineSide] = EngineSide) -> None:
        self._side = side
        self._sides: dict[tuple[tuple[str, str], ...], EngineSide] = {}

    def __call__(self, case: Case, policies: Mapping[str, str]) -> Plays:
        key = tuple(policies.items())
        if key not in self._sides:
            self._sides[key] = self._side(policies, SECONDS)
        return play(self._sides[key], case)


class Given:
    """A subject whose observations are there already, as `observe_all` gives them."""

    def __init__(self, observations: Mapping[str, Any]) -> None:
        self._observations = observations

    def __call__(self, case: Case, policies: Mapping[str, str]) -> Plays:
        return plays_of([case], {case.id: self._observations.get(_key(case, policies))})[case.id]


def observe_all(check: Check) -> dict[str, Any]:
    """All that the engine does in a check, as plain JSON, for `Given`."""
    engine = Engine()
    found = {}
    for case, policies in check.asked():
        plays = engine(case, policies)
        found[_key(case, policies)] = plain(plays.observations[0]) if plays.observations else None
    return found


def play(side: EngineSide, case: Case) -> Plays:
    assert isinstance(case.scenario, Scenario)
    side.begin(case.scenario)
    found = side.finish()
    return Plays(() if found.observation is None else (found.observation,), found.failure)


def plays_of(cases: Sequence[Case], observations: Mapping[str, Any]) -> dict[str, Plays]:
    """Given observations as plays; one that does not fit the schema is a failure, as in a run."""
    plays: dict[str, Plays] = {}
    for case in cases:
        raw = observations.get(case.id)
        try:
            plays[case.id] = Plays((decode(case.scenario.level, raw),))
        except msgspec.ValidationError as error:
            plays[case.id] = Plays((), f"an observation that does not fit the schema: {error}")
    return plays


def check_given(root: Path, observations: Mapping[str, Any], subject: Mapping[str, Any]) -> Seen:
    """The oracle's observations against the engine's, both given as plain JSON."""
    check = Check.of(root)
    return check.whole(plays_of(check.cases, observations), Given(subject))


def everything(check: Check, oracle: Mapping[str, Plays], subject: Subject) -> list[Shown] | None:
    """Every finding of the suite; None where the engine fails, or raises where the oracle does not."""
    shown: list[Shown] = []
    for case in check.cases:
        plays = subject(case, {})
        if plays.failure is not None or (_raises(plays) and not _raises(oracle[case.id])):
            return None
        one = judge(case, oracle[case.id], plays)
        shown += [Shown(one.id, one.scenario_hash, finding) for finding in one.findings]
    return shown


def _mirrored(record: Record) -> Sequence[str]:
    return record.front.fingerprints if record.front.attribution == "mirrored" else ()


def _raises(plays: Plays) -> bool:
    """Whether the side's own code raised: as the engine's, a fault that nobody would put on record."""
    seen = plays.observations[0]
    if isinstance(seen, Schedule):
        return seen.end.kind == "error"
    return isinstance(seen, PlanError) and seen.kind.startswith(UNRECOGNISED)


def _key(case: Case, policies: Mapping[str, str]) -> str:
    return " ".join([case.id, *(f"{name}={value}" for name, value in policies.items())])


def _shuffled(cases: Sequence[Case]) -> list[Case]:
    return sorted(cases, key=lambda case: hashlib.sha256(case.id.encode()).digest())

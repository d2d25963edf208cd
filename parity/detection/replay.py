"""A check of the levels plan and schedule with one side's observations given: what `parity check --quick` would say.

Imported anew in the child that a mutant is planted in, so that every module it uses is the planted one.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from engine.policies import TABLE
from parity.detection.material import quick_cases
from parity.engine_side import EngineSide
from parity.finding import Judged, Plays, ScenarioResult
from parity.judge import judge
from parity.observation import decode
from parity.records.match import Book
from parity.records.parse import load_records
from parity.records.record import Record
from parity.scenario import Case, Scenario
from parity.suite import load_suite
from parity.verdicts import Context, Replay, conclude, decide_scenario

SECONDS = 3  # a scenario: the slowest of the suite takes 0.1


class Seen(msgspec.Struct, frozen=True):
    """What a check says: its exit code, and the first scenario or record that is neither MATCH nor COVERED."""

    exit_code: int
    where: str | None
    verdict: str


class Check:
    """The suite of a checkout and its records (default: those that are committed)."""

    def __init__(self, root: Path, records: Sequence[Record] | None = None) -> None:
        self.cases = _shuffled(quick_cases(root))
        self.records = list(load_records(root)) if records is None else list(records)
        self.book = Book(self.records, {})
        self.context = Context(
            scenarios=frozenset(case.id for case in load_suite(root)),
            choices={policy.name: tuple(policy.values) for policy in TABLE},
            policies={},
            partial=False,
            today=datetime.datetime.now(datetime.UTC).date(),
        )

    def judged(self, oracle: Mapping[str, Plays], subject: Mapping[str, Plays]) -> Iterator[Judged]:
        """Each scenario's findings, in an order that has nothing to do with what a scenario is about."""
        for case in self.cases:
            known = self.book.known_outcomes(case.id)
            yield judge(case, oracle[case.id], subject[case.id], known=known)

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

    def replays(self, oracle: Mapping[str, Plays]) -> Iterator[Replay]:
        """Every `diverging` entry under its record's policy, played on the engine as it is here."""
        cases = {case.id: case for case in self.cases}
        for record in self.records:
            if not record.covers or record.policy is None:
                continue
            side = EngineSide(dict([record.policy]), SECONDS)
            for entry in record.front.diverging:
                case = cases.get(entry.scenario)
                if case is not None:
                    plays = play(side, case)
                    yield Replay(record.id, entry, judge(case, oracle[case.id], plays, mirrors=False))


class Played(Mapping[str, Plays]):
    """The engine's plays, each made when it is asked for."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._cases = {case.id: case for case in cases}
        self._side = EngineSide(seconds=SECONDS)

    def __getitem__(self, name: str) -> Plays:
        return play(self._side, self._cases[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._cases)

    def __len__(self) -> int:
        return len(self._cases)


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


def check(root: Path, observations: Mapping[str, Any]) -> Seen:
    """The engine as it is here against the oracle's observations, ended by the first verdict that does not pass."""
    whole = Check(root)
    oracle = plays_of(whole.cases, observations)
    return whole.concluded(whole.judged(oracle, Played(whole.cases)), whole.replays(oracle))


def check_oracle(root: Path, observations: Mapping[str, Any], subject: Mapping[str, Any]) -> Seen:
    """Other observations of the oracle's against given ones of the engine's. No policy is replayed."""
    whole = Check(root)
    sides = (plays_of(whole.cases, observations), plays_of(whole.cases, subject))
    return whole.concluded(whole.judged(*sides))


def _shuffled(cases: Sequence[Case]) -> list[Case]:
    return sorted(cases, key=lambda case: hashlib.sha256(case.id.encode()).digest())

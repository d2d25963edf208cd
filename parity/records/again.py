"""A finished run, decided by the records as they are now and not as they were then. Nothing is played."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

from parity.finding import Judged, ScenarioResult, Seen
from parity.records.match import Book
from parity.records.record import Record
from parity.runlog import ScenarioLine
from parity.verdicts import Context, decide_scenario


def decided_again(
    lines: Sequence[ScenarioLine], records: Sequence[Record], today: datetime.date, profile: str
) -> dict[str, ScenarioResult]:
    """Each scenario of a run at the pin's own choices, in that profile, by id, with what these records say of it."""
    context = Context(frozenset(), {}, {}, partial=False, today=today)
    book = Book(records, {}, profile)
    return {line.id: decide_scenario(judged_of(line), book, context) for line in lines}


def judged_of(line: ScenarioLine) -> Judged:
    """A line as it was before any record was read: without what only a record told of, which has no shape."""
    shown = tuple(item.finding for item in line.findings if item.finding.shape)
    plays = next((item.finding for item in line.findings if item.finding.oracle_outcomes), None)
    lost = None if line.detail is None else line.verdict.value
    outcomes: tuple[Mapping[str, Seen], Mapping[str, Seen]] = ({}, {})
    if plays is not None:
        outcomes = plays.oracle_outcomes, plays.subject_outcomes
    return Judged(
        id=line.id,
        level=line.level,
        scenario_hash=line.scenario_hash,
        findings=shown,
        failure=line.detail if lost == "VOID" else None,
        flaky=line.detail if lost == "FLAKY" else None,
        oracle_digest=plays.oracle_digest if plays else None,
        subject_digest=plays.subject_digest if plays else None,
        oracle_outcomes=dict(outcomes[0]),
        subject_outcomes=dict(outcomes[1]),
    )

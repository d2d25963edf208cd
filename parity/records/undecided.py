"""The findings that nobody decided yet, in groups: which one's decision would clear the most scenarios.

A group is an undecided record, or a fingerprint that a run calls NEW. A scenario is cleared by the decision of its
last open group.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

import msgspec

from parity.errors import UsageError
from parity.finding import Verdict
from parity.records.layout import draft_text
from parity.records.record import NEEDS_EXPIRY, Decision, Record
from parity.records.rules import PLACEHOLDER
from parity.runlog import ScenarioLine

PREFIX = "Undecided: "  # of a title


class Open(msgspec.Struct, frozen=True):
    """A group. `record` is null for one that is NEW; `finding` is which of the example's findings it is, from 1.

    `clears` counts the scenarios in which nothing else is open. A mirrored record names a few of its scenarios only:
    where no run was looked at, its counts are `at_least`.
    """

    fingerprint: str
    attribution: str
    at: str
    record: str | None
    example: str
    scenarios: int
    clears: int
    at_least: bool = False
    finding: int | None = None
    owner: str | None = None
    expires: datetime.date | None = None


def open_groups(records: Sequence[Record], lines: Sequence[ScenarioLine] | None = None) -> list[Open]:
    """The groups, the one that clears most first; `lines` are those of a run, decided by `records`."""
    undecided = {record.id: record for record in records if record.is_undecided}
    shown: dict[str, dict[str, None]] = {
        name: dict.fromkeys(record.scenarios) for name, record in undecided.items()
    }
    new: dict[str, Open] = {}
    for line in lines or ():
        for number, item in enumerate(line.findings, start=1):
            key = item.record
            if item.verdict is Verdict.NEW and item.finding.attribution != "harness":
                finding, key = item.finding, item.finding.fingerprint
                group = Open(key, finding.attribution, finding.at, None, line.id, 0, 0, finding=number)
                new.setdefault(key, group)
                shown.setdefault(key, {})
            if key in shown:
                shown[key][line.id] = None
    waiting: dict[str, int] = {}
    for scenarios in shown.values():
        for name in scenarios:
            waiting[name] = waiting.get(name, 0) + 1
    groups = [_of_record(record, at_least=lines is None) for record in undecided.values()]
    found = [
        msgspec.structs.replace(
            group,
            scenarios=len(shown[group.record or group.fingerprint]),
            clears=sum(waiting[name] == 1 for name in shown[group.record or group.fingerprint]),
        )
        for group in [*groups, *new.values()]
    ]
    return sorted(found, key=lambda group: (-group.clears, -group.scenarios, group.fingerprint))


def decided_text(record: Record, decision: Decision, expires: datetime.date | None) -> str:
    """The draft of a decision about an undecided record: proposed, with everything that is measured, its prose unwritten.

    Raises UsageError for a record that is decided, or a decision that lacks its date.
    """
    front = record.front
    if not record.is_undecided:
        raise UsageError(
            f"{record.id} is {front.state}, {front.decision or front.kind}: there is nothing to decide"
        )
    if decision == "mirror" and front.attribution != "mirrored":
        raise UsageError(
            f"{record.id} is a difference ({front.attribution}), and `mirror` says that both do the same",
            hint="decide diverge, owed or unsupported",
        )
    if decision in NEEDS_EXPIRY and expires is None:
        raise UsageError(
            f"{decision} has a day on which it is looked at again", hint="add --expires YYYY-MM-DD"
        )
    scope = {key: value for key, value in front.scope.items() if key != "suite"}
    return draft_text(
        msgspec.structs.replace(
            front,
            title=front.title.removeprefix(PREFIX),
            state="proposed",
            decision=decision,
            scope=scope,
            decided=None,
            expires=expires,
            on_bump=f"{PLACEHOLDER}: what a new pin means for this record",
        )
    )


def summary(group: Open) -> Mapping[str, object]:
    """A group for scripts."""
    built: Mapping[str, object] = msgspec.to_builtins(group)
    return built


def _of_record(record: Record, *, at_least: bool) -> Open:
    front = record.front
    first = front.exemplars[0] if front.exemplars else None
    return Open(
        fingerprint=front.fingerprints[0],
        attribution=front.attribution or "differs",
        at=first.at if first else front.diverging[0].at,
        record=record.id,
        example=record.scenarios[0],
        scenarios=0,
        clears=0,
        at_least=at_least and front.attribution == "mirrored",
        owner=front.owner,
        expires=front.expires,
    )

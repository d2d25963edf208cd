"""Which scenarios a subject is compared in, and what is told of the others: nothing is left out in silence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from parity.errors import InconclusiveError
from parity.finding import NotCompared
from parity.scenario import Case, Level, ServeScenario
from parity.serve.launcher import unflagged
from parity.subjects.capabilities import missing
from parity.subjects.doors import HttpDoor
from parity.subjects.fields import below_minimum, unobserved
from parity.subjects.subject import Loaded, Subject


def sort_out(cases: Sequence[Case], subjects: Sequence[Loaded]) -> tuple[list[Case], tuple[NotCompared, ...]]:
    """The cases that all of the subjects can be compared in, and the others."""
    compared: list[Case] = []
    others: list[NotCompared] = []
    for case in cases:
        lacking = next((found for loaded in subjects if (found := _lacks(case, loaded.subject))), None)
        if lacking is None:
            compared.append(case)
        else:
            others.append(lacking)
    return compared, tuple(others)


def check_sight(subject: Subject, levels: Sequence[Level]) -> None:
    """Raises InconclusiveError where so little is seen at one of the levels that nothing would be concluded."""
    for level in levels:
        lacking = below_minimum(subject.observes, level)
        if lacking:
            raise InconclusiveError(
                f"subject {subject.name} does not show {' and '.join(lacking)} at level {level}, the least to compare",
                hint="observe them, or take the level out of its levels",
            )


def _lacks(case: Case, subject: Subject) -> NotCompared | None:
    level = case.scenario.level
    if level not in subject.levels:
        return NotCompared(case.id, level, "unsupported", (f"level {level}",))
    scenario, door = case.scenario, subject.door
    hidden = unobserved(subject.observes, level)
    lacking = missing(case, _can(subject), shows_length="plan.max_model_len" not in hidden)
    otherwise: tuple[str, ...] = ()
    if isinstance(scenario, ServeScenario):
        if door.serve is not None:
            launcher = door.serve.launcher(subject.name)
            lacking += tuple(f"flag {key}" for key in unflagged(launcher, scenario.config))
        if door.http is not None:
            otherwise = tuple(_started_otherwise(door.http, scenario))
    if lacking:
        return NotCompared(case.id, level, "unsupported", lacking)
    return NotCompared(case.id, level, "unobserved", otherwise) if otherwise else None


def _can(subject: Subject) -> set[str]:
    """What a running server was started with is looked at one by one, and nobody but its owner signals it."""
    if subject.door.http is None:
        return {*subject.can}
    return {*subject.can, "start-flags"} - {"signals"}


def _started_otherwise(door: HttpDoor, scenario: ServeScenario) -> Iterator[str]:
    """What of the scenario's start the running server does not have."""
    started: dict[str, Any] = msgspec.structs.asdict(door.started)
    wanted: dict[str, Any] = msgspec.structs.asdict(scenario.config)
    for key, value in wanted.items():
        if value != started[key]:
            yield f"started with {key} = {msgspec.json.encode(value).decode()}"
    if scenario.fresh:
        yield "a fresh server"

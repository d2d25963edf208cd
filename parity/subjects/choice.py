"""Which scenarios a subject is compared in, and what is told of the others: nothing is left out in silence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from parity.errors import InconclusiveError
from parity.finding import NotCompared
from parity.scenario import Case, Level, ServerConfig, ServeScenario
from parity.serve.launcher import DEFAULTS
from parity.subjects.capabilities import missing
from parity.subjects.doors import HttpDoor, ServeDoor
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
    hidden = unobserved(subject.observes, level)
    lacking = missing(case, subject.can, shows_length="plan.max_model_len" not in hidden)
    door = subject.door
    if isinstance(case.scenario, ServeScenario):
        if door.serve is not None:
            lacking += tuple(f"flag {key}" for key in _unflagged(door.serve, case.scenario.config))
        if door.http is not None:
            flags = tuple(_started_otherwise(door.http, case.scenario))
            if flags and not [name for name in lacking if name != "start-flags"]:
                return NotCompared(case.id, level, "unobserved", flags)
            lacking = tuple(name for name in lacking if name != "start-flags")
    return NotCompared(case.id, level, "unsupported", lacking) if lacking else None


def _unflagged(door: ServeDoor, config: ServerConfig) -> Iterator[str]:
    """The keys whose value is not the default, and that the launcher has no flag for."""
    values: dict[str, Any] = msgspec.structs.asdict(config)
    for key, value in values.items():
        if key == "model" or key in door.flags or value is None:
            continue
        if key not in DEFAULTS or value != DEFAULTS[key]:
            yield key


def _started_otherwise(door: HttpDoor, scenario: ServeScenario) -> Iterator[str]:
    """What of the scenario's start the running server does not have."""
    values: dict[str, Any] = msgspec.structs.asdict(scenario.config)
    for key, value in values.items():
        if value != door.config.get(key, DEFAULTS.get(key)):
            yield f"started with {key} = {msgspec.json.encode(value).decode()}"
    if scenario.fresh:
        yield "a fresh server"

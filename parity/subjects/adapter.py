"""What a subject's file says of the process behind its door, held against what that process says and does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from parity.errors import InconclusiveError
from parity.protocol import Clock, Greeting, Run
from parity.scenario import Level, Scenario
from parity.subjects.capabilities import CAPABILITIES, OF_LEVELS
from parity.subjects.fields import FIELDS, unobserved
from parity.subjects.lens import lens_over
from parity.subjects.subject import Loaded, Subject

STEPPING: tuple[Level, ...] = ("plan", "schedule")  # the levels that a process plays


class Adapter(msgspec.Struct, frozen=True):
    """The claims of one subject's file, and the form in which its process is asked and answers."""

    loaded: Loaded

    def check(self, hello: Greeting) -> None:
        """Raises InconclusiveError where the file claims what hello does not confirm."""
        lacking = [f"{what} {', '.join(names)}" for what, names in _unconfirmed(self.loaded.subject, hello)]
        if lacking:
            raise InconclusiveError(
                f"hello of {self.loaded.subject.name} does not confirm {'; '.join(lacking)}",
                hint=f"the adapter is at fault: let its hello tell them, or take them out of {self.loaded.path.name}",
            )

    def asked(self, seq: int, scenario: Scenario) -> Run:
        """The line that asks for a scenario, with the times of a subject whose clock is in milliseconds."""
        clock = self.loaded.subject.clock
        if clock.unit != "ms":
            return Run(seq, scenario)
        requests = scenario.timeline.requests if scenario.timeline else []
        arrivals = {request.id: request.at * clock.per_step for request in requests}
        return Run(seq, scenario, Clock("ms", clock.per_step), arrivals)

    def complete(self, level: Level, raw: Any) -> Any:
        """An answer with blanks where it leaves out what the file does not claim to show."""
        subject = self.loaded.subject
        return lens_over(subject.observes, subject.profile, level).complete(raw)


def stepping(subject: Subject) -> list[Level]:
    """The levels of a subject that its process plays."""
    return [level for level in STEPPING if level in subject.levels]


def claimed(subject: Subject) -> tuple[str, ...]:
    """The capabilities that its file claims for these levels, by name."""
    known = [name for level in stepping(subject) for name in OF_LEVELS[level]]
    named = known if subject.capabilities == "all" else subject.capabilities
    return tuple(name for name in CAPABILITIES if name in named and name in known)


def shown(subject: Subject, level: Level) -> tuple[str, ...]:
    """The fields that its file claims to show at a level."""
    hidden = unobserved(subject.observes, level)
    return tuple(name for name in FIELDS[level] if name not in hidden)


def _unconfirmed(subject: Subject, hello: Greeting) -> Iterator[tuple[str, list[str]]]:
    levels = [level for level in stepping(subject) if level not in hello.levels]
    if levels:
        yield "level", list(levels)
    can = () if hello.capabilities == "all" else hello.capabilities
    capabilities = [name for name in claimed(subject) if hello.capabilities != "all" and name not in can]
    if capabilities:
        yield "capability", capabilities
    for level in stepping(subject):
        hidden = unobserved(hello.observes, level)
        fields = [name for name in shown(subject, level) if name in hidden]
        if fields:
            yield f"that it shows at level {level}", fields

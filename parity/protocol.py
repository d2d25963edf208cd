"""The lines between the harness and a process that plays (docs/protocol.md), as types.

The harness writes `Hello`, `Run` and `Stop`; the JSON Schemas of both directions are made from this file. An answer's fields may be fewer
than its type has: what a subject's `observes` leaves out is not awaited.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from parity.observation import End, PlanError, PlanOk, Step
from parity.scenario import Json, Level, NonNegative, Scenario

Seq = int  # opaque to who answers: it stands in every line of the answer


class Clock(msgspec.Struct, frozen=True):
    """The time of a simulator: a step lasts `per_step` milliseconds."""

    unit: Literal["ms"]
    per_step: Annotated[int, Meta(ge=1)]


class Hello(msgspec.Struct, frozen=True, tag_field="op", tag="hello"):
    """Asks who answers; the first line, and after a restart again."""

    seq: Seq


class Run(msgspec.Struct, frozen=True, tag_field="op", tag="run", omit_defaults=True):
    """Asks for one scenario. A simulator in milliseconds has its clock, and the time at which each request arrives."""

    seq: Seq
    scenario: Scenario
    clock: Clock | None = None
    arrivals: dict[str, NonNegative] | None = None


class Stop(msgspec.Struct, frozen=True, tag_field="op", tag="stop"):
    """The last line: answer `{"seq", "stopped": true}` and exit with 0."""

    seq: Seq


class Greeting(msgspec.Struct, frozen=True):
    """Who answers, and what of its subject's file it confirms, in the words and with the defaults of that file."""

    name: str
    version: str
    levels: list[Level] = []
    capabilities: list[str] | Literal["all"] = []
    observes: dict[Level, list[str]] = {}


class Greeted(msgspec.Struct, frozen=True):
    """The answer to `hello`."""

    seq: Seq
    hello: Greeting


class Stepped(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step, written as it happens; `native` is the subject's own output of it, for people."""

    seq: Seq
    step: Step
    native: Json = None


class ScheduleEnd(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a schedule is beside its steps."""

    plan: PlanOk | PlanError
    end: End


class PlanEnded(msgspec.Struct, frozen=True):
    """The answer to a scenario of level plan; `seconds` is the subject's own time."""

    seq: Seq
    end: PlanOk | PlanError
    seconds: Annotated[float, Meta(ge=0.0)] = 0.0


class ScheduleEnded(msgspec.Struct, frozen=True):
    """The last line of the answer to a scenario of level schedule; `seconds` is the subject's own time."""

    seq: Seq
    end: ScheduleEnd
    seconds: Annotated[float, Meta(ge=0.0)] = 0.0


class Fault(msgspec.Struct, frozen=True):
    """What is in the way of an answer; `driver` is a fault of the adapter's own."""

    kind: Literal["bad-request", "driver"]
    message: str


class Failed(msgspec.Struct, frozen=True):
    """The answer where there is none: the scenario is VOID, and the process goes on."""

    seq: Seq | None
    error: Fault

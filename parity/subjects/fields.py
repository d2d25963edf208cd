"""What of an observation can be seen at all: the names that a subject's `observes` is made of.

A name is a field of the level's observation; in a schedule it is prefixed by the part that has it: `plan.`, `steps.`
or `end.`, and at level serve by `exchanges.` where it is a field of each answer. A level that `observes` leaves out is
seen whole.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from parity.observation import Answer, End, PlanError, PlanOk, Serve, Step
from parity.scenario import Level

_PLAN = tuple(dict.fromkeys((*PlanOk.__struct_fields__, *PlanError.__struct_fields__)))
_ANSWER = tuple(field for field in Answer.__struct_fields__ if field != "id")

FIELDS: dict[Level, tuple[str, ...]] = {
    "plan": ("status", *_PLAN),
    "schedule": (
        *(f"plan.{field}" for field in ("status", *_PLAN)),
        *(f"steps.{field}" for field in Step.__struct_fields__),
        *(f"end.{field}" for field in End.__struct_fields__),
    ),
    "serve": (
        *(f"exchanges.{field}" for field in _ANSWER),
        *(field for field in Serve.__struct_fields__ if field != "exchanges"),
    ),
}

# Below this nothing that a level is about would have been compared.
MINIMUM: dict[Level, tuple[str, ...]] = {
    "plan": ("status",),
    "schedule": ("end.kind", "end.outputs"),
    "serve": ("exchanges.ending", "exchanges.status"),
}

# Of level serve: what only `/metrics` tells.
FROM_METRICS = ("preempted", "after")

Observes = Mapping[Level, Collection[str]]  # a level that is not in it is seen whole


def unobserved(observes: Observes, level: Level) -> tuple[str, ...]:
    """The fields of a level that are not seen, in their order."""
    if level not in observes:
        return ()
    return tuple(field for field in FIELDS[level] if field not in observes[level])


def below_minimum(observes: Observes, level: Level) -> tuple[str, ...]:
    """What is missing of the least that a level needs."""
    hidden = unobserved(observes, level)
    return tuple(field for field in MINIMUM[level] if field in hidden)

"""The promises that must hold on each side taken alone, whatever the other side does.

All properties of a level always run; a property is a pure function of the scenario and the observation. The names
are `parity.levels.PROPERTIES`; those of level serve are in `serve_properties`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from parity import serve_properties, shapes
from parity.finding import Broken
from parity.observation import Observation, PlanOk, Schedule, Serve, Step, plain
from parity.scenario import AnyScenario, Scenario, ServeScenario

Check = Callable[[Scenario, Observation], Broken | None]

ENDINGS_THAT_BREAK = ("stall", "livelock", "limit", "error")
NULL_BLOCK = 0


def broken_properties(
    scenario: AnyScenario, observation: Observation, *, waived: Collection[str] = ()
) -> tuple[Broken, ...]:
    """The breaks of the level's properties in this observation, in the level's order, without the waived ones.

    At level serve a property may be broken in several places, and each is told; elsewhere only the first is.
    """
    if isinstance(scenario, ServeScenario):
        if not isinstance(observation, Serve):
            raise TypeError(f"{scenario.id} is served, and its observation is {type(observation).__name__}")
        served = serve_properties.CHECKS.items()
        return tuple(
            broken for name, check in served if name not in waived for broken in check(scenario, observation)
        )
    checks = CHECKS[scenario.level].items()
    found = [check(scenario, observation) for name, check in checks if name not in waived]
    return tuple(broken for broken in found if broken is not None)


def serves_advertised_length(scenario: Scenario, observation: Observation) -> Broken | None:
    """A request that fills the advertised length must fit: ceil((L-1)/B) ≤ usable blocks.

    Prompt and output together have L tokens; the last sampled token is never written, so L-1 slots do.
    """
    if not isinstance(observation, PlanOk):
        return None
    slots = observation.max_model_len - 1
    if -(-slots // scenario.config.block_size) <= observation.usable_blocks:
        return None
    return _plan_break("serves-advertised-length", "max_model_len", observation.max_model_len)


def label_within_usable(scenario: Scenario, observation: Observation) -> Broken | None:
    """The advertised size in tokens must exist: kv_cache_size_tokens ≤ usable blocks × B."""
    if not isinstance(observation, PlanOk):
        return None
    if observation.kv_cache_size_tokens <= observation.usable_blocks * scenario.config.block_size:
        return None
    return _plan_break("label-within-usable", "kv_cache_size_tokens", observation.kv_cache_size_tokens)


def terminates(scenario: Scenario, observation: Observation) -> Broken | None:
    """A timeline must come to its end: not in a stall, a livelock, at the step limit or by an error.

    The value is the whole end, so that it tells how many tokens each request got until then.
    """
    del scenario
    if not isinstance(observation, Schedule) or observation.end.kind not in ENDINGS_THAT_BREAK:
        return None
    window = closing_steps(observation)
    return Broken(
        property="terminates",
        at="end",
        value=plain(observation)["end"],
        event=f"end:{observation.end.kind}",
        kind="broken",
        role="+".join(shapes.roles_left(observation, window)) or "-",
        events=shapes.events_of(observation.steps[index] for index in window),
    )


def no_block_leak(scenario: Scenario, observation: Observation) -> Broken | None:
    """Every usable block is free or held, in each step, before and after the update.

    Held blocks are the distinct ones of the running requests, the null block apart. After the update
    those that finished or were aborted in between hold nothing. It follows that the free blocks never
    exceed the usable ones, and that all are free once no request is left.
    """
    del scenario
    if not isinstance(observation, Schedule) or not isinstance(observation.plan, PlanOk):
        return None
    usable = observation.plan.usable_blocks
    for index, step in enumerate(observation.steps):
        gone = shapes.ended_in(step)
        counts = (
            ("schedule", "free", step.free, _held(step, gone=set())),
            ("update", "free_after", step.free_after, _held(step, gone)),
        )
        for event, field, free, held in counts:
            if free + held != usable:
                return Broken(
                    property="no-block-leak",
                    at=f"steps[{index}].{field}",
                    value=free,
                    event=event,
                    kind="less" if free + held < usable else "greater",
                    role="-",
                    events=shapes.events_of([step]),
                )
    return None


def closing_steps(observation: Schedule) -> Sequence[int]:
    """The steps that an ending is about, as indexes.

    stall: the empty steps at the end. livelock: one whole period, so that the shape does not depend on
    where in the cycle it was noticed. Otherwise the last step.
    """
    steps = observation.steps
    last = len(steps)
    if observation.end.kind == "livelock":
        return range(max(0, last - (observation.end.period or 1)), last)
    first = max(0, last - 1)
    if observation.end.kind == "stall":
        while first > 0 and not steps[first - 1].scheduled:
            first -= 1
    return range(first, last)


def _held(step: Step, gone: set[str]) -> int:
    held = {block for owner, blocks in step.blocks if owner not in gone for block in blocks}
    return len(held - {NULL_BLOCK})


def _plan_break(name: str, at: str, value: int) -> Broken:
    return Broken(property=name, at=at, value=value, event="plan:ok", kind="greater", role="-", events=())


CHECKS: dict[str, dict[str, Check]] = {
    "plan": {
        "serves-advertised-length": serves_advertised_length,
        "label-within-usable": label_within_usable,
    },
    "schedule": {"terminates": terminates, "no-block-leak": no_block_leak},
}

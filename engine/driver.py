"""The engine's driver: one function from a scenario to an observation, both plain JSON (docs/protocol.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from engine import capacity
from engine.policies import Policies, resolve
from engine.timeline import play
from engine.wire import EngineConfig, ScenarioSpec


def observe(
    scenario: Mapping[str, Any],
    policies: Mapping[str, str] | None = None,
    on_step: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """What the engine does in `scenario`, keys in the order of parity/observation.py.

    `policies` overrides the engine's defaults by name; `on_step` gets each step as it happens.
    Raises PolicyError for an unknown policy and msgspec.ValidationError for a scenario off the contract;
    whatever the engine itself raises is part of the observation.
    """
    chosen = resolve(policies)
    spec = msgspec.convert(scenario, ScenarioSpec)
    plan = _plan(spec.config, chosen)
    if spec.level == "plan":
        return plain(plan)
    if spec.timeline is None:
        raise msgspec.ValidationError("a scenario of level schedule needs a timeline")
    if isinstance(plan, capacity.PlanRefused):
        outputs = [[request.id, 0] for request in spec.timeline.requests]
        end = {"kind": "refused", "period": None, "error": None, "outputs": outputs}
        return {"plan": plain(plan), "steps": [], "end": end}
    steps, end = play(spec.config, plan, spec.timeline, on_step)
    return {"plan": plain(plan), "steps": steps, "end": end}


def _plan(config: EngineConfig, chosen: Policies) -> capacity.Plan:
    try:
        return capacity.plan(config, chosen)
    except Exception as error:  # noqa: BLE001 - an engine that raises is an observation
        first_line = (str(error).splitlines() or [""])[0]
        return capacity.PlanRefused([], f"unrecognised: {type(error).__name__}: {first_line}", None)


def plain(plan: capacity.Plan) -> dict[str, Any]:
    """A plan as plain JSON, fields in declared order."""
    value: dict[str, Any] = msgspec.to_builtins(plan)
    if "concurrency" in value:
        value["concurrency"] = list(value["concurrency"])
    return value

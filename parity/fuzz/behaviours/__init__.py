"""What a hunt steers by and reports: the behaviours that an observation shows, and how many kinds of states it went through."""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations

from parity.fuzz.behaviours import plan, schedule
from parity.fuzz.behaviours.states import states
from parity.observation import Observation, Schedule, Serve
from parity.scenario import AnyScenario, Level, Scenario

__all__ = ["TARGETS", "VOCABULARY", "pairs", "reached", "scores", "states"]

VOCABULARY: dict[Level, tuple[str, ...]] = {"plan": plan.VOCABULARY, "schedule": schedule.VOCABULARY}
TARGETS: dict[Level, tuple[str, ...]] = {
    "plan": ("behaviours",),
    "schedule": ("behaviours", "resumptions", "evictions", "hits", "preemptions", "blocked"),
}


def reached(scenario: AnyScenario, observation: Observation) -> frozenset[str]:
    """The names of the level's vocabulary that one side's observation shows. Raises ValueError for level serve."""
    if isinstance(observation, Serve) or not isinstance(scenario, Scenario):
        raise ValueError("behaviours of level serve are not told apart")
    if isinstance(observation, Schedule):
        return schedule.reached(scenario, observation)
    return plan.reached(scenario, observation)


def pairs(names: Collection[str]) -> set[str]:
    """Every two of the names, as `a+b` in alphabetical order."""
    return {f"{one}+{other}" for one, other in combinations(sorted(names), 2)}


def scores(scenario: AnyScenario, observation: Observation) -> dict[str, float]:
    """What `hypothesis.target` is to raise, by the labels of TARGETS, in their order."""
    behaviours = float(len(reached(scenario, observation)))
    if not isinstance(observation, Schedule):
        return {"behaviours": behaviours}
    steps = observation.steps
    return {
        "behaviours": behaviours,
        "resumptions": float(sum(len(step.resumed) for step in steps)),
        "evictions": float(sum(len(step.evicted) for step in steps)),
        "hits": float(sum(tokens > 0 for step in steps for _, tokens in step.cached)),
        "preemptions": float(sum(len(step.preempted) for step in steps)),
        "blocked": float(sum(bool(step.waiting) for step in steps)),
    }

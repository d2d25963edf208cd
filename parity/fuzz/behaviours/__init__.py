"""What a hunt steers by and reports: the behaviours that an observation shows, and how many kinds of states it went through."""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations

from parity.fuzz.behaviours import plan, schedule
from parity.fuzz.behaviours.states import states
from parity.observation import Observation, Schedule, Serve
from parity.scenario import AnyScenario, Level, Scenario

__all__ = ["VOCABULARY", "pairs", "reached", "states"]

VOCABULARY: dict[Level, tuple[str, ...]] = {"plan": plan.VOCABULARY, "schedule": schedule.VOCABULARY}


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

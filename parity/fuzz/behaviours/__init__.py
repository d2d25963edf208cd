"""What a hunt steers by and reports: the behaviours that an observation shows, and how many kinds of states it went through."""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations

from parity.fuzz import serve_behaviours
from parity.fuzz.behaviours import plan, schedule
from parity.fuzz.behaviours.states import states
from parity.observation import Observation, Schedule, Serve
from parity.scenario import AnyScenario, Level, ServeScenario

__all__ = ["VOCABULARY", "pairs", "reached", "states"]

VOCABULARY: dict[Level, tuple[str, ...]] = {
    "plan": plan.VOCABULARY,
    "schedule": schedule.VOCABULARY,
    "serve": serve_behaviours.VOCABULARY,
}


def reached(scenario: AnyScenario, observation: Observation) -> frozenset[str]:
    """The names of the level's vocabulary that one side's observation shows."""
    if isinstance(scenario, ServeScenario) or isinstance(observation, Serve):
        if not (isinstance(scenario, ServeScenario) and isinstance(observation, Serve)):
            raise TypeError(f"{scenario.id} and an observation that is {type(observation).__name__}")
        return serve_behaviours.reached(scenario, observation)
    if isinstance(observation, Schedule):
        return schedule.reached(scenario, observation)
    return plan.reached(scenario, observation)


def pairs(names: Collection[str]) -> set[str]:
    """Every two of the names, as `a+b` in alphabetical order."""
    return {f"{one}+{other}" for one, other in combinations(sorted(names), 2)}

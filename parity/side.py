"""A side is anything that plays a scenario: the oracle's process, our engine, later anyone's engine.

`begin` hands a scenario over and `finish` collects what came of it, so that both sides can work at once.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import msgspec

from parity.observation import Observation
from parity.scenario import AnyScenario, Json

Played = TypeVar("Played", bound=AnyScenario, contravariant=True)


class Play(msgspec.Struct, frozen=True):
    """One scenario, played once by one side.

    Exactly one of `observation` and `failure` is set. `failure` is one line: the side crashed, hung or broke
    the protocol; `steps` are the raw steps that it had reported by then. `seconds` is the side's own time.
    `native` is what the side itself put out in each step, in its own form; empty unless that was asked for.
    """

    observation: Observation | None
    failure: str | None
    seconds: float
    steps: tuple[dict[str, Any], ...] = ()
    native: tuple[Json, ...] = ()


class Side(Protocol[Played]):
    """Plays scenarios of its level, one at a time."""

    @property
    def name(self) -> str: ...

    def begin(self, scenario: Played) -> None:
        """Hand a scenario over; at most one is under way."""

    def finish(self) -> Play:
        """Wait, bounded, for the scenario under way."""

    def close(self) -> None:
        """End the side; no process of it outlives this call."""

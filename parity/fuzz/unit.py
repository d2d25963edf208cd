"""A hunt's unit of work and what comes of it: plain values, so that any process or machine may do it.

A unit is a seed, an index and a size. The same unit gives the same scenarios and the same result wherever and whenever
it is done, but for its seconds; a unit done twice counts once.
"""

from __future__ import annotations

import msgspec

from parity.finding import Attribution, Verdict
from parity.fuzz.document import Document
from parity.scenario import Json, Level

SIZE = 200  # scenarios of a unit of the levels plan and schedule
SERVE_SIZE = 10  # scripts


class Unit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`size` scenarios of one level, drawn from (seed, index) alone and played under `policies`."""

    level: Level
    seed: int
    index: int
    size: int
    policies: dict[str, str] = {}


class Find(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A finding that no record has, and the first scenario of its unit that showed it, as it was drawn.

    `ordinal` is that scenario's place in the unit, from 0. Of a side that failed (VOID) or disagreed with itself (FLAKY) the fingerprint is
    `void:<side>` or `flaky:<side>`, and `shape` is the line that says how. `policies` are the engine's choices that it showed under.
    """

    fingerprint: str
    shape: str
    attribution: Attribution | None
    property: str | None
    at: str
    oracle: Json
    subject: Json
    document: Document
    unit: int
    ordinal: int
    policies: dict[str, str] = {}


_WITHOUT_SHAPE = {"void": Verdict.VOID, "flaky": Verdict.FLAKY}


def verdict_of(find: Find) -> Verdict:
    """VOID, FLAKY or NEW."""
    return _WITHOUT_SHAPE.get(find.fingerprint.split(":")[0], Verdict.NEW)


class Reduced(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A find with the smallest scenario that shows it in the place of the drawn one, and the values seen in that one.

    `attempts` scenarios were tried; `stopped` says which bound ended that, or why none was tried, null where nothing
    smaller is left.
    """

    find: Find
    attempts: int
    stopped: str | None


class Spent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds: making scenarios, the oracle's and the subject's own, and the wall time of all but the making."""

    making: float = 0.0
    oracle: float = 0.0
    subject: float = 0.0
    playing: float = 0.0  # wall time that a side was waited for
    judging: float = 0.0  # wall time of everything else but the making: the harness's own

    @property
    def whole(self) -> float:
        return self.making + self.playing + self.judging

    @property
    def without_starts(self) -> float:
        """What it would have taken if no server had had to be started for it, both sides playing at once."""
        return self.making + max(self.oracle, self.subject) + self.judging


class Done(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A unit, done.

    `scenarios` counts what was played, fewer than the unit's size where a side failed too often to go on, `plays` the cut and switched ones behind the known as well. `states` are hashes of
    distinct states of the scheduler. `behaviours` maps each behaviour reached to the number of scenarios that did, `pairs`
    are those that came in one scenario. `known` maps a record to the findings that it covers, `behind` to those of them that were also looked behind.
    `steps` are the numbers of steps, of level schedule.
    """

    unit: Unit
    scenarios: int
    plays: int
    states: list[int]
    behaviours: dict[str, int]
    pairs: list[str]
    known: dict[str, int]
    behind: dict[str, int]
    finds: list[Find]
    steps: list[int]
    spent: Spent

    @property
    def unplayed(self) -> int:
        """Scenarios that were not drawn any more."""
        return self.unit.size - self.scenarios

"""What a hunt has shown so far: its units' results, each counted once."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable

import msgspec

from parity.fuzz.unit import Done, Find, Spent


class Tally:
    """Sums over units. A unit that comes again, by its index, changes nothing."""

    def __init__(self) -> None:
        self.units: set[int] = set()
        self.scenarios = 0
        self.unplayed = 0
        self.plays = 0
        self.states: set[int] = set()
        self.behaviours: Counter[str] = Counter()
        self.pairs: set[str] = set()
        self.known: Counter[str] = Counter()
        self.behind: Counter[str] = Counter()
        self.spent = Spent()
        self._finds: dict[str, Find] = {}
        self._steps: Counter[int] = Counter()

    def add(self, done: Done) -> Done | None:
        """Count one unit; what of it is new here, for a log that need not repeat itself. Null where it was counted."""
        if done.unit.index in self.units:
            return None
        news = msgspec.structs.replace(
            done,
            states=[state for state in done.states if state not in self.states],
            pairs=[pair for pair in done.pairs if pair not in self.pairs],
        )
        self.units.add(done.unit.index)
        self.scenarios += done.scenarios
        self.unplayed += done.unplayed
        self.plays += done.plays
        self.states.update(done.states)
        self.behaviours.update(done.behaviours)
        self.pairs.update(done.pairs)
        self.known.update(done.known)
        self.behind.update(done.behind)
        self._steps.update(done.steps)
        self.spent = _sum(self.spent, done.spent)
        for find in done.finds:
            self._keep(find)
        return news

    def finds(self) -> list[Find]:
        """One find a fingerprint, the first of the lowest unit, in that order."""
        return sorted(self._finds.values(), key=_place)

    @property
    def median_steps(self) -> float | None:
        """Steps of a timeline, over all; null where none was played."""
        return statistics.median(self._steps.elements()) if self._steps else None

    def _keep(self, find: Find) -> None:
        other = self._finds.get(find.fingerprint)
        if other is None or _place(find) < _place(other):
            self._finds[find.fingerprint] = find


def tally_of(results: Iterable[Done]) -> Tally:
    """All of these units together, whatever their order."""
    tally = Tally()
    for done in results:
        tally.add(done)
    return tally


def _place(find: Find) -> tuple[int, int, str]:
    return find.unit, find.ordinal, find.fingerprint


def _sum(left: Spent, right: Spent) -> Spent:
    pairs = zip(msgspec.structs.astuple(left), msgspec.structs.astuple(right), strict=True)
    return Spent(*(one + other for one, other in pairs))

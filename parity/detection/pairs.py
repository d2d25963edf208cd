"""Pairs of planted faults: which faults are fit for one, which pairs are made of them, and what stayed hidden."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from parity.detection.mutation import Mutant, source_of
from parity.detection.recording import Shown


class Fault(msgspec.Struct, frozen=True):
    """A mutant that the check notices and nothing crashes of, and its findings in the suite.

    `scenarios` are those in which it shows, `recordable` is whether a check that has its findings on record is green.
    """

    planted: Mutant
    shown: list[Shown]
    scenarios: int
    recordable: bool = False


Where = Literal["check", "hunt", "behind"]
LIMITS: dict[Where, float] = {"check": 0.10, "hunt": 1.0, "behind": 0.05}  # of the pairs may stay hidden
TITLES: dict[Where, str] = {
    "check": "in a check",
    "hunt": "in a hunt by fingerprints alone",
    "behind": "in a hunt that looks behind the known",
}


class Pair(msgspec.Struct, frozen=True):
    """The fault on record, the other one, and whether that stayed hidden; null where it would not show alone."""

    recorded: str
    other: str
    check: bool
    hunt: bool | None
    behind: bool | None

    def hidden(self, where: Where) -> bool | None:
        return {"check": self.check, "hunt": self.hunt, "behind": self.behind}[where]


class Share(msgspec.Struct, frozen=True):
    """How many pairs stayed hidden, of how many that could show."""

    where: Where
    hidden: int
    of: int

    @property
    def rate(self) -> float:
        return self.hidden / self.of if self.of else 0.0

    @property
    def reached(self) -> bool:
        return self.rate <= LIMITS[self.where]


def fit(faults: Sequence[Fault], most: int) -> list[Fault]:
    """The faults that show in the fewest scenarios, at most `most`, in the order of their ids: those hide best."""
    ranked = sorted(faults, key=lambda fault: (fault.scenarios, fault.planted.id))
    return sorted(ranked[:most], key=lambda fault: fault.planted.id)


def make(root: Path, faults: Sequence[Fault], count: int, seed: int) -> list[tuple[Fault, Fault]]:
    """`count` ordered pairs, the first one recordable, that can be in the source together; fewer if there are not as many."""
    possible = [
        (first, second)
        for first in faults
        if first.recordable
        for second in faults
        if first.planted.id != second.planted.id and _together(root, first.planted, second.planted)
    ]
    random.Random(seed).shuffle(possible)
    return possible[:count]


def _together(root: Path, first: Mutant, second: Mutant) -> bool:
    if first.file != second.file:
        return True
    try:
        compile(source_of(root, [first, second]), first.file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def shares(pairs: Sequence[Pair]) -> list[Share]:
    """Each way of looking, and what stayed hidden from it."""
    found = []
    for where in LIMITS:
        answers = [answer for pair in pairs if (answer := pair.hidden(where)) is not None]
        found.append(Share(where, sum(answers), len(answers)))
    return found

"""Pairs of planted faults: which faults are fit for one, which pairs are made of them, and what stayed hidden."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import msgspec

from parity.detection.mutation import Mutant, source_of
from parity.detection.recording import Shown

CHECK_LIMIT = 0.10  # of the pairs may stay hidden in a check
HUNT_LIMIT = 0.05  # and wholly in a hunt


class Fault(msgspec.Struct, frozen=True):
    """A mutant that the check notices and nothing crashes of, and its findings in the suite.

    `scenarios` are those in which it shows, `recordable` is whether a check that has its findings on record is green.
    """

    planted: Mutant
    shown: list[Shown]
    scenarios: int
    recordable: bool = False


class Pair(msgspec.Struct, frozen=True):
    """The fault on record, the other one, and whether that stayed hidden: null where it was not asked or cannot be.

    A hunt is asked only for a fault that alone would show in it.
    """

    recorded: str
    other: str
    check: bool | None
    hunt: bool | None
    behind: bool | None = None


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


def rate(pairs: Sequence[Pair], asked: str) -> tuple[int, int]:
    """How many pairs stayed hidden, of how many that were asked: `check`, `hunt` or `behind`."""
    answers = [answer for pair in pairs if (answer := getattr(pair, asked)) is not None]
    return sum(answers), len(answers)

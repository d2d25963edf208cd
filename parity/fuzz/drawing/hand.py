"""The choices that make a document, whoever makes them: hypothesis (`parity.fuzz.strategies`) or a hunt (`parity.fuzz.search`).

Every choice is one of at most a hundred whole numbers from 0 on, and a larger number is put together from two. Two things rest on
that. A choice says the same wherever it is copied to. And hypothesis mixes constants of the local modules that happen to be
imported into its draws, but only such of three digits or more, so no import can change what is drawn here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")

MOST = 100  # values of one choice
ROLL = 96  # values of a roll: many divisors, so that a remainder is a fair choice


class Source(Protocol):
    """Makes choices."""

    def number(self, count: int) -> int:
        """One of the `count` whole numbers from 0 on; `count` is from 2 to MOST."""

    def rolls(self, count: int) -> tuple[int, ...]:
        """`count` whole numbers below ROLL, one piece: such pieces may be copied onto one another."""


class Hand:
    """Choices in the words that documents are drawn with. The first of everything is the simplest."""

    __slots__ = ("_source",)

    def __init__(self, source: Source) -> None:
        self._source = source

    def below(self, count: int) -> int:
        """One of `count` whole numbers from 0 on, at most MOST squared."""
        if count <= 1:
            return 0
        if count <= MOST:
            return self._source.number(count)
        digit = -(-count // MOST)
        high = self._source.number(-(-count // digit))
        return min(high * digit + self.below(digit), count - 1)

    def between(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included; `low` where there is none."""
        return low + self.below(high - low + 1)

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def chance(self, hits: int, of: int) -> bool:
        """True `hits` times `of` so many. A small `of` leaves few choices that change nothing."""
        return self._source.number(of) >= of - hits

    def near(self, anchors: Sequence[int], low: int, high: int) -> int:
        """An anchor, or one beside it, within `low` and `high`."""
        return near(self.below(3 * len(anchors)), anchors, low, high)

    def rolls(self, count: int) -> Iterator[int]:
        return iter(self._source.rolls(count))


def near(roll: int, anchors: Sequence[int], low: int, high: int) -> int:
    """The anchor that a roll means, or one beside it, within `low` and `high` (and `low` where they cross)."""
    anchor = anchors[roll // 3 % len(anchors)]
    return max(low, min(high, anchor + (0, -1, 1)[roll % 3]))

"""Every draw of the hunt, so that a seed gives the same documents in any process, whatever else is imported there.

Hypothesis mixes the whole numbers that stand in local modules into what it draws, so draws depend on what happens to
be imported. It takes only numbers of three digits or more, and only where the draw allows them: no draw here has more
than a hundred values, from 0 on, and a larger number is put together from two of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")

MOST = 100  # values of one draw
ROLL = 96  # values of a roll: many divisors, so that a remainder is a fair choice
MOST_ROLLS = 12

_BELOW = tuple(st.integers(0, max(count - 1, 0)) for count in range(MOST + 1))
_ROLLS = tuple(st.tuples(*[_BELOW[ROLL]] * count) for count in range(MOST_ROLLS + 1))


class Hand:
    """Draws of one document. The first choice of everything is the simplest, as hypothesis begins there."""

    __slots__ = ("_draw",)

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def below(self, count: int) -> int:
        """One of `count` whole numbers from 0 on."""
        if count <= 1:
            return 0
        if count <= MOST:
            return self._draw(_BELOW[count])
        digit = -(-count // MOST)
        high = self.below(-(-count // digit))
        return min(high * digit + self.below(digit), count - 1)

    def between(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included; `low` where there is none."""
        return low + self.below(high - low + 1)

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def chance(self, hits: int, of: int) -> bool:
        """True `hits` times `of` so many. A small `of` keeps hypothesis from trying what changes nothing."""
        return self._draw(_BELOW[of]) >= of - hits

    def near(self, anchors: Sequence[int], low: int, high: int) -> int:
        """An anchor, or one beside it, within `low` and `high`."""
        return near(self.below(3 * len(anchors)), anchors, low, high)

    def rolls(self, count: int) -> Iterator[int]:
        """`count` rolls as one piece: hypothesis copies such pieces onto one another, and any roll is valid anywhere."""
        return iter(self._draw(_ROLLS[count]))


def near(roll: int, anchors: Sequence[int], low: int, high: int) -> int:
    """The anchor that a roll means, or one beside it, within `low` and `high` (and `low` where they cross)."""
    anchor = anchors[roll // 3 % len(anchors)]
    return max(low, min(high, anchor + (0, -1, 1)[roll % 3]))

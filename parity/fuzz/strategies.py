"""Documents as hypothesis strategies, for tests that say what holds of all of them.

A hunt does not draw with these: see `parity.fuzz.search`.
"""

from __future__ import annotations

from hypothesis import strategies as st

from parity.fuzz.document import Document
from parity.fuzz.drawing import draw_document
from parity.fuzz.drawing.hand import MOST, ROLL
from parity.scenario import Level

_NUMBERS = tuple(st.integers(0, max(count - 1, 0)) for count in range(MOST + 1))
_ROLLS = tuple(st.tuples(*[_NUMBERS[ROLL]] * count) for count in range(12))


def documents(level: Level) -> st.SearchStrategy[Document]:
    """Documents of level plan or schedule, each of which `case_from` takes. Raises ValueError for level serve."""
    if level == "serve":
        raise ValueError("no documents of level serve are drawn here")
    return _documents(level)


@st.composite
def _documents(draw: st.DrawFn, level: Level) -> Document:
    return draw_document(level, _Drawn(draw))


class _Drawn:
    """Choices that hypothesis makes, shrinks and mutates."""

    __slots__ = ("_draw",)

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def number(self, count: int) -> int:
        return self._draw(_NUMBERS[count])

    def rolls(self, count: int) -> tuple[int, ...]:
        return self._draw(_ROLLS[count])

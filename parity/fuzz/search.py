"""A steered search: documents drawn at random, or out of the choices of earlier ones that showed something new.

What is new is for the caller to say (the pairs of behaviours that both sides showed). The choices of such a document are kept, and
more than half of the documents to come are variations of a kept one: a few choices made anew, all from some place on made anew, or
the rest taken from another kept one.

It is not done with `hypothesis.target`. That climbs by small changes to one best document and stays there, and hypothesis duplicates
parts of whatever it drew: of equally many scenarios that is fewer kinds of states and fewer pairs of behaviours than drawing them
independently (docs/detection.md has the figures), and steering is to give more.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from random import Random

from parity.fuzz.document import Document
from parity.fuzz.drawing import draw_document
from parity.fuzz.drawing.hand import ROLL
from parity.scenario import Level

VARIED = 0.6  # share of variations, once something was kept
_ANEW = (1, 2, 4)  # choices made anew in a variation

Choices = list[int | None]  # null: to be made anew


class Search:
    """The documents of one unit: equal seeds and equal answers to `keep` give equal documents in any process and version."""

    def __init__(self, level: Level, seed: str) -> None:
        self._level = level
        self._random = Random(seed)
        self._seen: set[Hashable] = set()
        self._kept: list[list[int]] = []
        self._replayed: Choices = []
        self._made: list[int] = []

    def draw(self) -> Document:
        """The next document."""
        self._made = []
        self._replayed = []
        if self._kept and self._random.random() < VARIED:
            self._replayed = self._variation()
        return draw_document(self._level, self)

    def keep(self, shown: Iterable[Hashable]) -> bool:
        """Say what the last document showed; whether any of it was new in this search."""
        fresh = set(shown) - self._seen
        self._seen |= fresh
        if fresh:
            self._kept.append(self._made)
        return bool(fresh)

    def number(self, count: int) -> int:
        """A choice for `draw_document`: the replayed one where there is one that fits."""
        place = len(self._made)
        replayed = self._replayed[place] if place < len(self._replayed) else None
        choice = self._below(count) if replayed is None or replayed >= count else replayed
        self._made.append(choice)
        return choice

    def rolls(self, count: int) -> tuple[int, ...]:
        return tuple(self.number(ROLL) for _ in range(count))

    def _below(self, count: int) -> int:
        """One of `count` numbers, by the one method of Random whose sequence Python promises to keep."""
        return int(self._random.random() * count)

    def _variation(self) -> Choices:
        parent: Choices = list(self._kept[self._below(len(self._kept))])
        place = self._below(len(parent))
        match self._below(4):
            case 0:
                return parent[:place]
            case 1:
                other = self._kept[self._below(len(self._kept))]
                return [*parent[:place], *other[place:]]
            case _:
                for _ in range(_ANEW[self._below(len(_ANEW))]):
                    parent[self._below(len(parent))] = None
                return parent

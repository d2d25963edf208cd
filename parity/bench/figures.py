"""What the bench measured, as values, and as the lines that a person reads: each figure beside what it should reach."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

OURS, UPSTREAM, TRANSFORMERS = "ours", "upstream", "transformers"
SIDES = (OURS, UPSTREAM, TRANSFORMERS)
VERSUS_UPSTREAM = {"float32": 1.2, "bfloat16": 1.0}
VERSUS_TRANSFORMERS = 0.9
MIB = 1 << 20


class Spread(msgspec.Struct, frozen=True):
    """Median, smallest and largest of the rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))


class Cell(msgspec.Struct, frozen=True):
    """One dtype at one batch: tokens/s a side, ours over each other side round by round, and who has no rate.

    `same` counts the requests for which all sides gave the same tokens, of those that all of them answered.
    """

    dtype: str
    batch: int
    rates: dict[str, Spread]
    ratios: dict[str, Spread]
    faults: dict[str, str]
    same: int = 0
    compared: int = 0


class Figure(msgspec.Struct, frozen=True):
    """A ratio beside its target. `found` is null where there is none, and `note` then says why."""

    what: str
    found: Spread | None
    target: float
    bound: Literal["at least", "at most"]
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the median is where it should be; null without a figure."""
        if self.found is None:
            return None
        median = self.found.median
        return median >= self.target if self.bound == "at least" else median <= self.target


def of_cell(cell: Cell) -> list[Figure]:
    """The cell's ratios beside what the first rung demands."""
    targets = {UPSTREAM: VERSUS_UPSTREAM[cell.dtype], TRANSFORMERS: VERSUS_TRANSFORMERS}
    return [
        Figure(
            f"{cell.dtype}, batch {cell.batch}: ours / {other}",
            cell.ratios.get(other),
            target,
            "at least",
            cell.faults.get(other) or cell.faults.get(OURS, ""),
        )
        for other, target in targets.items()
    ]


def memory(dtype: str, ours: int | str, upstream: int | str) -> Figure:
    """Peak bytes beyond weights and pool, ours over upstream's; a string says why there are none."""
    what = f"{dtype}: peak memory beyond weights and KV pool, ours / upstream"
    if isinstance(ours, str):
        return Figure(what, None, 1.0, "at most", ours)
    if isinstance(upstream, str):
        return Figure(what, None, 1.0, "at most", upstream)
    if upstream <= 0:
        return Figure(what, None, 1.0, "at most", f"upstream's peak is {upstream} bytes beyond them")
    ratio = ours / upstream
    note = f"{ours / MIB:.0f} MiB, {upstream / MIB:.0f} MiB"
    return Figure(what, Spread(ratio, ratio, ratio), 1.0, "at most", note)


def rate_table(cells: Sequence[Cell]) -> str:
    """Generated tokens/s: a line a cell, a column a side."""
    columns: list[tuple[str, Callable[[Cell], str]]] = [
        ("dtype", lambda cell: cell.dtype),
        ("batch", lambda cell: str(cell.batch)),
        *((side, lambda cell, side=side: _rate(cell, side)) for side in SIDES),
        ("same tokens", lambda cell: f"{cell.same}/{cell.compared}" if cell.compared else "-"),
    ]
    lines = [[name for name, _ in columns], *([show(cell) for _, show in columns] for cell in cells)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def figure_lines(figures: Sequence[Figure]) -> str:
    """A line a figure: met, missed or none; what was found; what it should be."""
    width = max((len(figure.what) for figure in figures), default=0)
    return "\n".join(_figure(figure, width) for figure in figures)


def _figure(figure: Figure, width: int) -> str:
    mark = {True: "met   ", False: "MISSED", None: "none  "}[figure.met]
    if figure.found is None:
        return f"{mark} {figure.what:{width}}  {figure.note or 'not measured'}"
    line = (
        f"{mark} {figure.what:{width}}  {_spread(figure.found, 2)}; should be {figure.bound} {figure.target}"
    )
    return f"{line} ({figure.note})" if figure.note else line


def _rate(cell: Cell, side: str) -> str:
    spread = cell.rates.get(side)
    return "no rate" if spread is None else _spread(spread, 1)


def _spread(spread: Spread, digits: int) -> str:
    if spread.low == spread.high:
        return f"{spread.median:.{digits}f}"
    return f"{spread.median:.{digits}f} ({spread.low:.{digits}f} to {spread.high:.{digits}f})"

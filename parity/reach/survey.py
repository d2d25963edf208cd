"""From coverage.py's lines and jumps of a file to its functions and branches, each with what became of it.

Only what stands in a function's body counts: the rest is executed by the import, whatever is played.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from parity.reach.source import Source

PACKAGE = "vllm/v1/core/"  # what paths are relative to
State = Literal["reached", "missed", "behind"]


class Measured(msgspec.Struct, frozen=True):
    """A file in coverage.py's JSON, as far as it is used. A negative line in a jump is a function's end."""

    executed_lines: list[int]
    missing_lines: list[int]
    executed_branches: list[tuple[int, int]]
    missing_branches: list[tuple[int, int]]


class Report(msgspec.Struct, frozen=True):
    """coverage.py's JSON. Paths are absolute, or relative to where it was written."""

    files: dict[str, Measured]


class Function(msgspec.Struct, frozen=True):
    """A function that has lines to execute; `symbol` is `file.py::Class.method`."""

    symbol: str
    entered: bool


class Branch(msgspec.Struct, frozen=True):
    """One way that a condition or a loop can go, or an exception handler, in a function that is entered.

    `key` is `file.py::Class.method | if CONDITION -> yes`. A branch is `missed` where its condition was executed and
    never went that way, and `behind` another one where the condition itself never was.
    """

    key: str
    state: State


class File(msgspec.Struct, frozen=True):
    """What was executed of one file. `jumps` counts those of functions that are never entered too."""

    path: str
    lines: tuple[int, int]  # executed, of
    jumps: tuple[int, int]
    functions: tuple[Function, ...]
    branches: tuple[Branch, ...]
    missing: tuple[int, ...]


def survey(path: str, text: str, measured: Measured) -> File:
    """The file at `path`, which is relative to PACKAGE."""
    source = Source(text)
    executed = _inside(source, measured.executed_lines)
    missing = _inside(source, measured.missing_lines)
    entered = {source.owner(line) for line in executed}
    names = dict.fromkeys(source.owner(line) for line in sorted([*executed, *missing]))
    reached = [jump for jump in measured.executed_branches if source.owner(jump[0])]
    unreached = [jump for jump in measured.missing_branches if source.owner(jump[0])]
    return File(
        path=path,
        lines=(len(executed), len(executed) + len(missing)),
        jumps=(len(reached), len(reached) + len(unreached)),
        functions=tuple(Function(f"{path}::{name}", name in entered) for name in names),
        branches=tuple(_branches(path, source, set(executed), reached, unreached, entered)),
        missing=tuple(missing),
    )


def survey_all(report: Report, texts: Mapping[str, str]) -> list[File]:
    """Every file that has a function, sorted by path. `texts` is by the report's own names."""
    files = [survey(relative(name), texts[name], measured) for name, measured in report.files.items()]
    return sorted((file for file in files if file.functions), key=lambda file: file.path)


def relative(name: str) -> str:
    """A file's name below PACKAGE."""
    return name.replace("\\", "/").rpartition(PACKAGE)[2]


def _inside(source: Source, lines: Iterable[int]) -> list[int]:
    return [line for line in lines if source.owner(line) is not None]


def _branches(
    path: str,
    source: Source,
    executed: set[int],
    reached: list[tuple[int, int]],
    unreached: list[tuple[int, int]],
    entered: set[str | None],
) -> Iterable[Branch]:
    for jump in sorted([*reached, *unreached]):
        owner = source.owner(jump[0])
        if owner in entered:
            state: State = "reached" if jump in reached else "missed" if jump[0] in executed else "behind"
            yield Branch(f"{path}::{owner} | {source.label(*jump)}", state)
    for handler in source.handlers:
        owner = source.owner(handler.first)
        if owner in entered:
            state = (
                "reached"
                if handler.first in executed
                else "missed"
                if handler.guarded in executed
                else "behind"
            )
            yield Branch(f"{path}::{owner} | {handler.label}", state)

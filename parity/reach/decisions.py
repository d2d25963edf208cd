"""What is out of scope, and why: `oracle/reach.toml`, and what it comes to beside a measurement.

What no scenario reaches is *to do* unless the file says why no scenario can. An entry that is of no use any more is
*stale*: the file never excuses more than it must.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import cache
from typing import Literal

import msgspec

from parity.errors import UsageError
from parity.reach.survey import File, State

FILE = "oracle/reach.toml"
Kind = Literal["functions", "branches"]


class Entry(msgspec.Struct, frozen=True):
    """One line of the file: what it speaks of, and the name of its reason. A `*` stands for any text."""

    kind: Kind
    pattern: str
    reason: str

    def matches(self, name: str) -> bool:
        return _expression(self.pattern).fullmatch(name) is not None


class Decisions(msgspec.Struct, frozen=True):
    """`reasons` is by name; the entries are in the file's order."""

    reasons: dict[str, str]
    entries: tuple[Entry, ...]


class Stale(msgspec.Struct, frozen=True):
    """An entry that has to go, and why."""

    pattern: str
    why: str


class Judged(msgspec.Struct, frozen=True):
    """Symbols and keys that are to do, those out of scope with the name of their reason, and entries that are stale."""

    functions: tuple[str, ...]
    branches: tuple[str, ...]
    functions_out: dict[str, str]
    branches_out: dict[str, str]
    stale: tuple[Stale, ...]

    @property
    def settled(self) -> bool:
        return not (self.functions or self.branches or self.stale)


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    because: str
    functions: list[str] = []
    branches: list[str] = []


def read_decisions(data: bytes) -> Decisions:
    """The file's content. Raises UsageError for what is no TOML, or says something twice or nothing at all."""
    try:
        tables = msgspec.convert(tomllib.loads(data.decode()), dict[str, _Table])
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"{FILE}: {error}", hint="a table a reason: because, functions, branches") from None
    entries: list[Entry] = []
    for name, table in tables.items():
        if not table.because.strip():
            raise UsageError(f"{FILE}: {name} has no reason", hint=f"say it in {name}.because")
        entries += [Entry("functions", pattern, name) for pattern in table.functions]
        entries += [Entry("branches", pattern, name) for pattern in table.branches]
    seen: set[tuple[Kind, str]] = set()
    for entry in entries:
        if (entry.kind, entry.pattern) in seen:
            raise UsageError(f"{FILE}: {entry.pattern!r} stands there twice", hint="keep one of them")
        seen.add((entry.kind, entry.pattern))
    return Decisions({name: table.because for name, table in tables.items()}, tuple(entries))


def judge(files: Sequence[File], decisions: Decisions) -> Judged:
    """What is to do, what is out of scope and what is stale, each in the order of the files."""
    functions = {one.symbol: one.entered for file in files for one in file.functions}
    branches = {key: state == "missed" for key, state in states(files).items() if state != "behind"}
    out: dict[Kind, dict[str, str]] = {"functions": {}, "branches": {}}
    stale: list[Stale] = []
    for entry in decisions.entries:
        if entry.kind == "functions":
            open_, closed = _told_apart(entry, {name: not entered for name, entered in functions.items()})
            done, nothing = "is entered", "no such function"
        else:
            open_, closed = _told_apart(entry, branches)
            done, nothing = "is reached", "no such branch that is missed"
        decided = out[entry.kind]
        if closed:
            stale.append(Stale(entry.pattern, f"{closed[0]} {done}"))
        elif not open_:
            stale.append(Stale(entry.pattern, nothing))
        for name in open_:
            if name in decided:
                stale.append(Stale(entry.pattern, f"{name} is decided by another entry ({decided[name]})"))
            else:
                decided[name] = entry.reason
    return Judged(
        functions=tuple(
            name for name, entered in functions.items() if not entered and name not in out["functions"]
        ),
        branches=tuple(key for key, missed in branches.items() if missed and key not in out["branches"]),
        functions_out=out["functions"],
        branches_out=out["branches"],
        stale=tuple(stale),
    )


def states(files: Sequence[File]) -> dict[str, State]:
    """What became of each branch, by key. One that stands in its function more than once is missed if any is.

    What is behind another branch needs no decision of its own.
    """
    found: dict[str, State] = {}
    for branch in (branch for file in files for branch in file.branches):
        found[branch.key] = max(branch.state, found.get(branch.key, branch.state), key=_WEIGHT.index)
    return found


_WEIGHT: tuple[State, ...] = ("behind", "reached", "missed")


def _told_apart(entry: Entry, names: dict[str, bool]) -> tuple[list[str], list[str]]:
    """The names that the entry matches: those that are open, and those that are not."""
    matched = [name for name in names if entry.matches(name)]
    return [name for name in matched if names[name]], [name for name in matched if not names[name]]


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)

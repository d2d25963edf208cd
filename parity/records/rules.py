"""What rules have in common: what they are held against, and how they tell of a fault.

A rule is one small function; its name, with dashes, is what a report prints and what its two fixtures
under `tests/records/fixtures/` are called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from parity.records.parse import Raw
from parity.records.record import EXACT, Front, Record

PLACEHOLDER = "TO BE WRITTEN"


class Ground(msgspec.Struct, frozen=True):
    """What records are held against.

    `upstream` is the folder that holds `vllm/`, or null where none is at hand. `folder` holds the records (null: the
    engine's), and `profile` is the one that their subject is compared in now.
    """

    root: Path
    families: tuple[str, ...]
    pins: frozenset[str]
    upstream: Path | None = None
    folder: Path | None = None
    profile: str = EXACT


class Page(msgspec.Struct, frozen=True):
    """One record as a rule sees it: as text, as a value, and what it is held against."""

    raw: Raw
    record: Record
    ground: Ground

    @property
    def front(self) -> Front:
        return self.record.front

    def line(self, *keys: str | int) -> int:
        return self.raw.line(*keys)


class Fault(msgspec.Struct, frozen=True):
    """What is wrong, at a line of the record's file, or of `path` where the fault is in another one."""

    line: int
    message: str
    path: str | None = None


class Problem(msgspec.Struct, frozen=True):
    """A fault with the rule that found it, as reports print it."""

    rule: str
    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message} [{self.rule}]"


Faults = Iterator[Fault]
FormRule = Callable[[Raw], Faults]
RecordRule = Callable[[Page], Faults]


def name_of(rule: FormRule | RecordRule) -> str:
    return rule.__name__.replace("_", "-")

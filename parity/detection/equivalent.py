"""The mutants that change nothing anybody could see, each with the reason, in `equivalent.toml`.

An entry names its mutant by id and by the lines before and after, so that it cannot speak of another one by accident.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from parity.detection.mutation import Mutant, file_of
from parity.errors import UsageError

FILE = "parity/detection/equivalent.toml"


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One equivalent mutant: what it changes, and why nothing that is promised depends on that."""

    mutant: str
    was: str
    becomes: str
    because: str

    def is_of(self, mutant: Mutant) -> bool:
        return (self.mutant, self.was, self.becomes) == (mutant.id, mutant.was, mutant.becomes)


class _Form(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    equivalent: list[Entry] = []


def read_entries(path: Path) -> list[Entry]:
    """The entries of the file. Raises UsageError for one that cannot be read, and for a mutant that is there twice."""
    try:
        form = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), _Form)
    except (OSError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"{path} is no list of equivalent mutants: {error}") from None
    seen: set[str] = set()
    for entry in form.equivalent:
        if not entry.because.strip():
            raise UsageError(
                f"{path}: {entry.mutant} has no reason", hint="say in `because` why nobody can see it"
            )
        if entry.mutant in seen:
            raise UsageError(f"{path}: {entry.mutant} is there twice")
        seen.add(entry.mutant)
    return form.equivalent


def split_known(mutants: Iterable[Mutant], entries: Sequence[Entry]) -> tuple[list[Mutant], dict[str, Entry]]:
    """The mutants that no entry is of, and by id the entries that are of one."""
    by_id = {entry.mutant: entry for entry in entries}
    rest: list[Mutant] = []
    known: dict[str, Entry] = {}
    for mutant in mutants:
        entry = by_id.get(mutant.id)
        if entry is not None and entry.is_of(mutant):
            known[mutant.id] = entry
        else:
            rest.append(mutant)
    return rest, known


def gone(entries: Iterable[Entry], existing: Iterable[Mutant], files: Iterable[str]) -> list[Entry]:
    """The entries on `files` whose mutation does not exist (any more) as it is written there."""
    by_id = {mutant.id: mutant for mutant in existing}
    asked = set(files)
    return [
        entry
        for entry in entries
        if file_of(entry.mutant) in asked and not (entry.mutant in by_id and entry.is_of(by_id[entry.mutant]))
    ]

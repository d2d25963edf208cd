"""The committed suite: every file below `parity/scenarios`, loaded whole, and the choice of a part of it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from parity.document import nearest
from parity.errors import ScenarioError, UsageError
from parity.levels import FAMILIES
from parity.loader import load_file
from parity.scenario import Case

FOLDER = "parity/scenarios"
VERSION = (
    "0.1"  # of the suite: what a subject's `suite` is held against; scenarios that are added say `since`
)

VERSION_SYNTAX = re.compile(r"\d+\.\d+")


def load_suite(root: Path) -> list[Case]:
    """Every case of the checkout at `root`, sorted by id. Raises ScenarioError at the first fault."""
    cases = [case for path in scenario_files(root) for case in load_file(path, root)]
    cases.sort(key=lambda case: case.id)
    for before, case in pairwise(cases):
        if before.id == case.id:
            raise ScenarioError(case.path, f"the id {case.id!r} is also in {before.path}")
    return cases


def is_newer(case: Case, suite: str) -> bool:
    """Whether a case came after that version of the suite."""
    return version_of(case.since) > version_of(suite)


def version_of(text: str) -> tuple[int, ...]:
    """A version of the suite as numbers, which have the order that texts have not."""
    return tuple(int(part) for part in text.split("."))


def scenario_files(root: Path) -> list[Path]:
    """The files of the suite, sorted. A file that would be passed over in silence is an error."""
    folder = root / FOLDER
    if not folder.is_dir():
        raise UsageError(f"no folder {FOLDER} in {root}", hint="run this in a whole checkout")
    files = []
    for path in sorted(folder.rglob("*")):
        place = path.relative_to(folder)
        if path.is_dir() or any(part.startswith(".") for part in place.parts) or path.name.endswith("~"):
            continue
        if len(place.parts) != 2 or path.suffix != ".yaml":
            raise ScenarioError(
                path.relative_to(root).as_posix(),
                "is no scenario",
                hint=f"scenarios are {FOLDER}/<family>/<file>.yaml",
            )
        files.append(path)
    return files


def select(cases: Sequence[Case], ids: Sequence[str], family: str | None = None) -> list[Case]:
    """The cases that any of `ids` names, of one family if given; no ids: all. Sorted by id, without repetition.

    An id names its scenario; the id of a sweep's file, or a family's name, names everything below it.
    Raises UsageError for a name that selects nothing.
    """
    if family is not None and family not in FAMILIES:
        raise UsageError(f"no family {family!r}", hint=nearest(family, FAMILIES))
    pool = [case for case in cases if family in (None, case.family)]
    if not pool:
        raise UsageError(f"the family {family!r} has no scenarios" if family else "there are no scenarios")
    if not ids:
        return sorted(pool, key=lambda case: case.id)
    chosen: dict[str, Case] = {}
    for name in ids:
        found = [case for case in pool if _names(name, case.id)]
        if not found:
            raise UsageError(f"no scenario {name!r}{_within(family)}", hint=_guess(name, pool))
        chosen.update((case.id, case) for case in found)
    return [chosen[id_] for id_ in sorted(chosen)]


def _names(name: str, id_: str) -> bool:
    prefix = name.rstrip("/")
    return bool(prefix) and (id_ == prefix or id_.startswith(prefix + "/"))


def _guess(name: str, pool: Sequence[Case]) -> str:
    """The known name that resembles `name`, or else where to begin: the suite is too long to be listed."""
    close = difflib.get_close_matches(name, _known(pool), n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"begin with a family: {', '.join(dict.fromkeys(case.family for case in pool))}"


def _within(family: str | None) -> str:
    return "" if family is None else f" in the family {family!r}"


def _known(cases: Sequence[Case]) -> list[str]:
    """Every name that `select` would accept for these cases: ids, files and families."""
    known: dict[str, None] = {}
    for case in cases:
        parts = case.id.split("/")
        known.update(("/".join(parts[:count]), None) for count in range(len(parts), 0, -1))
    return list(known)

"""A document becomes a scenario of the suite: a title and a family to begin with, never a second copy of a question."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from parity.document import nearest
from parity.errors import ScenarioError, UsageError
from parity.fuzz.document import TITLE, Document, case_from
from parity.fuzz.edits import tidied
from parity.fuzz.found import create
from parity.fuzz.source import Given
from parity.fuzz.text import dump, laid
from parity.fuzz.words import family_of, slug_of, title_of
from parity.levels import FAMILIES
from parity.loader import load
from parity.suite import FOLDER, load_suite

_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class Promoted(msgspec.Struct, frozen=True):
    """The scenario as it was written: its id, and its file below the root."""

    id: str
    path: str
    title: str


def promote(
    root: Path, source: Given, *, family: str | None, name: str | None, title: str | None
) -> Promoted:
    """Write the scenario into the suite; what is null is made from the finding's shape.

    Raises UsageError for a family or name that cannot be, for a plain scenario's file without a name, and for a
    question that the suite asks already; ScenarioError where the file exists.
    """
    found = source.found
    shape = "" if found is None else found.shape
    family = family or family_of(shape, source.document)
    if family not in FAMILIES:
        raise UsageError(f"no family {family!r}", hint=nearest(family, FAMILIES))
    if name is None and found is None:
        raise UsageError(f"{source.name} is no found file, so it says no name", hint="give one with --name")
    slug = name or slug_of(shape, "" if found is None else found.fingerprint)
    if not _SLUG.fullmatch(slug):
        raise UsageError(f"--name {slug!r} is not lower-case words joined by dashes")
    asked = case_from(source.document).hash
    same = next((case.id for case in load_suite(root) if case.hash == asked), None)
    if same is not None:
        raise UsageError(f"the suite asks this already: {same}", hint=f"`parity run {same}` plays it")
    said = title or source.document.get("title") or (title_of(shape) if found else TITLE)
    document: Document = tidied({**source.document, "title": said})
    path = f"{FOLDER}/{family}/{slug}.yaml"
    text = dump(laid(document))
    load(text.encode(), path)  # what the suite would refuse is refused before it is there
    if (root / path).exists():
        raise ScenarioError(
            path, "exists already, and is not overwritten", hint="give another name with --name"
        )
    create(root / path, text)
    return Promoted(f"{family}/{slug}", path, said)

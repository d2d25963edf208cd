"""The file that keeps one finding of a hunt: what differs in words and values, how it came about, and the scenario.

It stands in `runs/found/`, named after its fingerprint, so that each is kept once; a smaller scenario of the same
fingerprint takes its place. People read it, and `parity shrink`, `promote` and `replay` take it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping as Map
from pathlib import Path

import msgspec

from engine.policies import PolicyError, resolve
from parity import wholefile
from parity.decode import decode, plain
from parity.document import MAX_INTEGER, Fault, Keys, Mapping, Scalar, parse
from parity.errors import RunFileError, ScenarioError
from parity.finding import Attribution, Judged
from parity.fuzz.document import TITLE, Document, case_from
from parity.fuzz.examine import finding_of
from parity.fuzz.size import size
from parity.fuzz.text import dump, flow, laid
from parity.fuzz.unit import Find
from parity.loader import fault_in, form_of
from parity.scenario import Json

FOLDER = "runs/found"
SYNTAX = re.compile(r"f1:[0-9a-f]{16}|(void|flaky):(oracle|subject)")
_PLAIN_DEPTH = 3


class Found(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A finding, and the scenario that shows it under `policies`.

    `oracle` and `subject` are the values `at` the place. `pin` is the version that it was found against. `seed`,
    `unit` and `ordinal` tell which scenario of which unit it was drawn as, null where it was not drawn. `attempts`
    is the number of smaller scenarios that were tried, null or 0 while it is as it came.
    """

    fingerprint: str
    shape: str
    attribution: Attribution | None
    property: str | None
    at: str
    oracle: Json
    subject: Json
    pin: str
    scenario: Document
    seed: int | None = None
    unit: int | None = None
    ordinal: int | None = None
    policies: dict[str, str] = {}
    attempts: int | None = None


def found_of(find: Find, pin: str, seed: int | None, attempts: int | None) -> Found:
    """A hunt's find as the file keeps it."""
    shared = {field: getattr(find, field) for field in Find.__struct_fields__ if field != "document"}
    return Found(**shared, pin=pin, scenario=find.document, seed=seed, attempts=attempts)


_HEAD = tuple(field for field in Found.__struct_fields__ if field != "scenario")


def again(found: Found, judged: Judged, scenario: Document, attempts: int | None) -> Found:
    """The same finding as a play of `scenario` showed it."""
    changed = msgspec.structs.replace(found, scenario=scenario, attempts=attempts)
    finding = finding_of(judged, found.fingerprint)
    if finding is None:
        return msgspec.structs.replace(changed, shape=judged.failure or judged.flaky or found.shape)
    return msgspec.structs.replace(
        changed,
        shape=finding.shape,
        attribution=finding.attribution,
        property=finding.property,
        at=finding.at,
        oracle=finding.oracle,
        subject=finding.subject,
    )


def found_text(found: Found) -> str:
    """The file's text, which `parse_found` reads back as the same finding."""
    head = {key: flow(_readable(getattr(found, key))) for key in _HEAD}
    return dump({**head, "scenario": laid(found.scenario)})


def _readable(value: Json, depth: int = 0) -> Json:
    """A value as it is where YAML has it, else its JSON as a text."""
    if isinstance(value, (list, tuple)) and depth < _PLAIN_DEPTH:
        return [_readable(item, depth + 1) for item in value]
    if isinstance(value, dict) and depth < _PLAIN_DEPTH:
        return {str(key): _readable(item, depth + 1) for key, item in value.items()}
    is_small = isinstance(value, int) and abs(value) <= MAX_INTEGER
    if value is None or is_small or (isinstance(value, str) and value.isprintable()):
        return value
    return msgspec.json.encode(value).decode() if not isinstance(value, str) else ascii(value)


def parse_found(data: bytes, path: str) -> Found:
    """The finding in a file's bytes; `path` is shown in errors. Raises ScenarioError."""
    tree: Mapping | None = None
    try:
        tree = parse(data)
        found = decode(tree, Found)
        if not SYNTAX.fullmatch(found.fingerprint):
            raise Fault(f"{found.fingerprint[:40]!r} is no fingerprint", ("fingerprint",))
        check_policies(found.policies)
        scenario = tree.items["scenario"]
        assert isinstance(scenario, Mapping), "a document is one"
        document_of(scenario, ("scenario",))
    except Fault as fault:
        raise fault_in(path, tree, fault) from None
    return found


def check_policies(policies: Map[str, str]) -> None:
    """Raises Fault for a choice that the engine does not have."""
    try:
        resolve(policies)
    except PolicyError as error:
        raise Fault(str(error), ("policies",)) from None


def document_of(tree: Mapping, keys: Keys = ()) -> Document:
    """The document at `keys` of a file, which can be played. Raises Fault at the key that cannot be."""
    document: Document = plain(tree)
    titled = {"title": Scalar(TITLE, TITLE, tree.line), **tree.items}
    try:
        form_of(Mapping(titled, tree.lines, tree.line))
        case_from(document)
    except Fault as fault:
        raise Fault(fault.message, (*keys, *fault.keys), line=fault.line, hint=fault.hint) from None
    return document


def read_found(path: Path) -> Found:
    """The finding that a file keeps. Raises ScenarioError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ScenarioError(path, f"cannot be read: {error.strerror}") from None
    return parse_found(data, str(path))


def is_found(data: bytes) -> bool:
    """Whether a file's bytes are meant as a found one, and not as a scenario."""
    try:
        tree = parse(data)
    except Fault:
        return False
    return "scenario" in tree.items or "fingerprint" in tree.items


def found_path(root: Path, fingerprint: str) -> Path:
    """Where the finding is kept below the project's root."""
    return root / FOLDER / f"{fingerprint.replace(':', '-')}.yaml"


def kept(root: Path) -> list[Path]:
    """Every file of a found one, sorted."""
    return sorted((root / FOLDER).glob("*.yaml"))


def keep(found: Found, root: Path) -> Path:
    """Keep the finding, once, and give its file. One of its fingerprint that is there already stays unless it is larger.

    Of sides that failed the newest is kept: what `void:subject` and its like say is who, and not why.
    Raises ScenarioError for a kept one that cannot be read, RunFileError where the file cannot be written.
    """
    path = found_path(root, found.fingerprint)
    if (
        found.attribution is not None
        and path.exists()
        and size(read_found(path).scenario) <= size(found.scenario)
    ):
        return path
    try:
        wholefile.replace(path, found_text(found))
    except OSError as error:
        raise _cannot(path, error) from None
    return path


def create(path: Path, text: str) -> None:
    """Write a file where none may be yet. Raises ScenarioError where one is, RunFileError where it cannot be written."""
    try:
        wholefile.create(path, text)
    except FileExistsError:
        raise ScenarioError(
            path, "exists already, and is not overwritten", hint="name another file"
        ) from None
    except OSError as error:
        raise _cannot(path, error) from None


def _cannot(path: Path, error: OSError) -> RunFileError:
    return RunFileError(
        f"{path} cannot be written: {error.strerror}", hint="free some space, or name another file"
    )

"""What `parity shrink` and its like are given: a found file, a scenario's file, or a part of a run or of a hunt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from parity.decode import plain
from parity.document import Fault, Mapping, nearest, parse
from parity.errors import RunFileError, ScenarioError, UsageError
from parity.finding import Decided
from parity.fuzz.document import Document, case_from
from parity.fuzz.found import Found, check_policies, document_of, found_of, is_found, parse_found
from parity.fuzz.log import is_log, read_log
from parity.loader import fault_in, load_file
from parity.runlog import read_run
from parity.suite import scenario_files
from parity.sweep import expand


class Given(msgspec.Struct, frozen=True):
    """A document with what is known of it: the found file that it comes from, or what a run decided of it."""

    name: str
    document: Document
    policies: dict[str, str]
    found: Found | None = None
    decided: tuple[Decided, ...] = ()


def given(root: Path, text: str, policies: dict[str, str]) -> Given:
    """What `FILE`, `RUN#ID` or `LOG#FINGERPRINT` names; `policies` are those of a file that names none.

    Raises ScenarioError, UsageError, RunFileError.
    """
    path = Path(text)
    whole, mark, name = text.rpartition("#")
    if mark and whole and name and not path.exists():
        return _part(root, Path(whole), name, policies)
    if is_log(path):
        raise UsageError(f"{text} is a hunt's log", hint=f"name one of its finds after #: {_names(path)}")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ScenarioError(path, f"cannot be read: {error.strerror}", hint=_GIVE) from None
    if not data.strip():
        raise ScenarioError(path, "is empty", hint=_GIVE)
    if data.startswith(b'{"line":"header"'):
        raise UsageError(f"{text} is a run's file", hint=f"name one of its scenarios, as {text}#ID")
    if is_found(data):
        return _kept(parse_found(data, text), text, policies)
    return Given(text, _document(data, text), policies)


_GIVE = "give a found file, a scenario's file, RUN#ID or a hunt's LOG#FINGERPRINT"


def found_in(root: Path, text: str) -> Found:
    """The finding that `FILE` or `LOG#FINGERPRINT` keeps. Raises what `given` raises, and UsageError for a scenario."""
    found = given(root, text, {}).found
    if found is None:
        raise UsageError(
            f"{text} is a scenario, and no found file", hint="`parity run` plays scenarios of the suite"
        )
    return found


def _kept(found: Found, name: str, policies: dict[str, str]) -> Given:
    if policies and policies != found.policies:
        raise UsageError(f"{name} was found under its own policies", hint="leave --policy out")
    return Given(name, found.scenario, found.policies, found=found)


def _part(root: Path, whole: Path, name: str, policies: dict[str, str]) -> Given:
    """A scenario of a run, or a find of a hunt."""
    if not whole.exists():
        raise ScenarioError(whole, "is not there", hint="give a run's file or a hunt's log before #")
    if is_log(whole):
        return _kept(_of_log(whole, name), f"{whole}#{name}", policies)
    return _of_run(root, whole, name, policies)


def _of_log(path: Path, fingerprint: str) -> Found:
    """A find of a hunt's log, as small as the hunt left it."""
    log = read_log(path)
    shrunk = {reduced.find.fingerprint: reduced for reduced in log.finds}
    drawn = {find.fingerprint: find for done in reversed(log.units) for find in done.finds}
    if fingerprint in shrunk:
        find, attempts = shrunk[fingerprint].find, shrunk[fingerprint].attempts
    elif fingerprint in drawn:
        find, attempts = drawn[fingerprint], None
    else:
        raise UsageError(f"{path} has no find {fingerprint}", hint=f"it has: {_names(path)}")
    try:
        check_policies(find.policies)
        case_from(find.document)
    except Fault as fault:
        raise fault_in(f"{path}#{fingerprint}", None, fault) from None
    return found_of(find, log.header.pin.measured, log.header.seed, attempts)


def _names(path: Path) -> str:
    """The fingerprints of all that a hunt found."""
    log = read_log(path)
    finds = [find for done in log.units for find in done.finds] + [reduced.find for reduced in log.finds]
    return ", ".join(dict.fromkeys(find.fingerprint for find in finds)) or "none"


def documents(path: Path, root: Path) -> Iterator[tuple[str, Document]]:
    """The id and the document of each scenario of one file of the suite. Raises ScenarioError."""
    cases = load_file(path, root)
    for case, point in zip(cases, expand(parse(path.read_bytes())), strict=True):
        yield case.id, plain(point.tree)


def _of_run(root: Path, run: Path, name: str, policies: dict[str, str]) -> Given:
    read = read_run(run)
    played = {line.id: line for line in read.scenarios}
    if name not in played:
        raise UsageError(f"{run} did not play {name}", hint=nearest(name, played))
    line = played[name]
    if not read.header.is_of_engine:
        raise UsageError(f"{run} held {read.header.subject.name} against upstream, and not the engine")
    if policies and policies != read.header.policies:
        raise UsageError(f"{run} was made under its own policies", hint="leave --policy out")
    for path in scenario_files(root):
        if not name.startswith(f"{path.parent.name}/{path.stem}"):
            continue
        for id_, document in documents(path, root):
            if id_ != name:
                continue
            if case_from(document).hash != line.scenario_hash:
                hint = f"`parity run {name}` plays it as it is now"
                raise UsageError(f"{name} changed since {run}", hint=hint)
            return Given(name, document, read.header.policies, decided=line.findings)
    raise RunFileError(f"{run} played {name}, which is no scenario any more")


def _document(data: bytes, path: str) -> Document:
    """The one scenario of a file, which may lie anywhere."""
    tree: Mapping | None = None
    try:
        tree = parse(data)
        points = expand(tree)
        if len(points) > 1:
            hint = "play it with `parity run` and give RUN#ID, or write the one scenario out"
            raise Fault(f"the sweep has {len(points)} scenarios", ("sweep",), hint=hint)
        return document_of(points[0].tree)
    except Fault as fault:
        raise fault_in(path, tree, fault) from None

"""What `parity shrink` and its like are given: a found file, a scenario's file, or a scenario of a finished run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from parity.decode import plain
from parity.document import Fault, Mapping, parse
from parity.errors import RunFileError, ScenarioError, UsageError
from parity.finding import Decided
from parity.fuzz.document import Document, case_from
from parity.fuzz.found import Found, document_of, found_of, is_found, parse_found
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
    """What `FILE` or `RUN#ID` names; `policies` are those of a file that names none.

    Raises ScenarioError, UsageError, RunFileError.
    """
    path = Path(text)
    run, mark, name = text.rpartition("#")
    if mark and run and name and not path.exists():
        if not Path(run).exists():
            raise ScenarioError(run, "is not there", hint="give a run's file or a hunt's log before #")
        if is_log(Path(run)):
            return _of_log(Path(run), name, policies)
        return _of_run(root, Path(run), name, policies)
    if path.is_file() and is_log(path):
        kept = ", ".join(reduced.find.fingerprint for reduced in read_log(path).finds) or "none"
        raise UsageError(f"{text} is a hunt's log", hint=f"name one of its finds after #: {kept}")
    try:
        data = path.read_bytes()
    except OSError as error:
        hint = "give a found file, a scenario's file, or RUN#ID"
        raise ScenarioError(path, f"cannot be read: {error.strerror}", hint=hint) from None
    if not data.strip():
        raise ScenarioError(path, "is empty", hint="give a found file, a scenario's file, or RUN#ID")
    if data.startswith(b'{"line":"header"'):
        raise UsageError(f"{text} is a run's file", hint=f"name one of its scenarios, as {text}#ID")
    if is_found(data):
        found = parse_found(data, text)
        if policies and policies != found.policies:
            raise UsageError(f"{text} was found under its own policies", hint="leave --policy out")
        return Given(text, found.scenario, found.policies, found=found)
    return Given(text, _document(data, text), policies)


def _of_log(path: Path, fingerprint: str, policies: dict[str, str]) -> Given:
    """A find of a hunt's log, as small as the hunt left it."""
    log = read_log(path)
    if policies and policies != log.header.policies:
        raise UsageError(f"{path} was made under its own policies", hint="leave --policy out")
    finds = [reduced.find for reduced in log.finds] + [find for done in log.units for find in done.finds]
    found = next((find for find in finds if find.fingerprint == fingerprint), None)
    if found is None:
        known = ", ".join(dict.fromkeys(find.fingerprint for find in finds)) or "none"
        raise UsageError(f"{path} has no find {fingerprint}", hint=f"it has: {known}")
    attempts = next((item.attempts for item in log.finds if item.find is found), None)
    kept = found_of(found, log.header.pin.measured, log.header.seed, attempts)
    return Given(f"{path}#{fingerprint}", found.document, found.policies, found=kept)


def documents(path: Path, root: Path) -> Iterator[tuple[str, Document]]:
    """The id and the document of each scenario of one file of the suite. Raises ScenarioError."""
    cases = load_file(path, root)
    for case, point in zip(cases, expand(parse(path.read_bytes())), strict=True):
        yield case.id, plain(point.tree)


def _of_run(root: Path, run: Path, name: str, policies: dict[str, str]) -> Given:
    read = read_run(run)
    line = read.scenario(name)
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

"""A subject, as its TOML file says: who it is, which door leads to it, and what it claims and can show."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from parity.document import nearest
from parity.errors import UsageError
from parity.scenario import Level
from parity.serve import launcher
from parity.subjects.capabilities import CAPABILITIES
from parity.subjects.doors import Doors
from parity.subjects.fields import FIELDS, FROM_METRICS, unobserved

FOLDER = "subjects"
DEFAULT = "engine"
SUFFIX = ".toml"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")
_VERSION = re.compile(r"\d+\.\d+")

Profile = Literal["exact", "renamed", "counts", "aggregate"]
Capabilities = list[str] | Literal["all"]


class Clock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A simulator's time. `steps`: an arrival's step is its step. `ms`: it is the time step × `per_step`, in ms."""

    unit: Literal["steps", "ms"] = "steps"
    per_step: Annotated[int, Meta(ge=1, le=1_000_000)] = 1


class Subject(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who is held against the oracle.

    `mirrors` null promises no parity: a difference is then `differs` and not `ours`. `observes` names, by level, the
    fields that it shows (`parity.subjects.fields`); a level that is left out is shown whole. `capabilities` are
    what its scenarios may need. `records` is the folder of its decisions, from the subject's file. `suite` is the
    version of the suite that it answers for: scenarios that are newer are played and shown, and decide nothing.
    `folder` is where its processes are started, from the subject's file.
    """

    name: str
    door: Doors
    levels: Annotated[list[Level], Meta(min_length=1)]
    records: str
    suite: str
    mirrors: Literal["vllm"] | None = None
    profile: Profile = "exact"
    capabilities: Capabilities = []
    observes: dict[Level, list[str]] = {}
    clock: Clock = Clock()
    folder: str = "."

    @property
    def can(self) -> tuple[str, ...]:
        """Its capabilities, each by name. Totals can be told without a trace of the steps."""
        if self.capabilities == "all":
            return tuple(CAPABILITIES)
        return (*self.capabilities, *(("step-trace",) if self.profile == "aggregate" else ()))


class Loaded(msgspec.Struct, frozen=True):
    """A subject with the file that it was read from, and that file's digest."""

    subject: Subject
    path: Path
    digest: str

    @property
    def folder(self) -> Path:
        """Where its processes are started."""
        return (self.path.parent / self.subject.folder).resolve()

    @property
    def records(self) -> Path:
        return (self.path.parent / self.subject.records).resolve()


def find_subject(root: Path, name: str) -> Path:
    """The file of a subject: a path to a TOML file, or the name of one in `subjects/`. Raises UsageError."""
    if name.endswith(SUFFIX):
        path = Path(name)
        if path.is_file():
            return path.resolve()
        raise UsageError(f"there is no subject file {name}", hint="docs/plug-in.md shows how to write one")
    path = root / FOLDER / f"{name}{SUFFIX}"
    if path.is_file():
        return path
    known = sorted(file.stem for file in (root / FOLDER).glob(f"*{SUFFIX}"))
    raise UsageError(
        f"no subject {name!r} in {FOLDER}/", hint=nearest(name, known) if known else f"give a {SUFFIX} file"
    )


def load_subject(path: Path) -> Loaded:
    """Read a subject. Raises UsageError that names the file and what is wrong in it."""
    try:
        data = path.read_bytes()
        subject = parse_subject(data)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="name a subject's TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError, msgspec.ValidationError) as error:
        raise UsageError(f"{path}: {error}", hint="docs/plug-in.md has every key") from None
    for fault, hint in faults(subject):
        raise UsageError(f"{path}: {fault}", hint=hint)
    loaded = Loaded(subject, path, f"sha256:{hashlib.sha256(data).hexdigest()}")
    if not loaded.folder.is_dir():
        raise UsageError(
            f"{path}: folder {subject.folder!r} is no folder", hint="it counts from the subject's file"
        )
    return loaded


def parse_subject(data: bytes) -> Subject:
    """The content of a subject's file. Raises TOMLDecodeError, UnicodeDecodeError, ValidationError."""
    return msgspec.convert(tomllib.loads(data.decode("utf-8")), Subject)


def faults(subject: Subject) -> Iterator[tuple[str, str]]:
    """What the types cannot say, each with what to do about it."""
    if not _NAME.fullmatch(subject.name):
        yield f"name {subject.name!r} is no name", "up to 40 of a-z, 0-9, dots, dashes and underscores"
    if not _VERSION.fullmatch(subject.suite):
        yield f"suite {subject.suite!r} is no version", 'write it as "0.1"'
    doors = subject.door
    for names, levels in ((doors.stepping, ("plan", "schedule")), (doors.serving, ("serve",))):
        if len(names) > 1:
            yield f"door: {' and '.join(names)} are doors to the same levels", "leave all but one out"
        wanted = [level for level in subject.levels if level in levels]
        if wanted and not names:
            yield f"level {wanted[0]} has no door", f"add one, or take {wanted[0]} out of levels"
        if names and not wanted:
            yield f"door: {names[0]} leads to no level", f"add one of {', '.join(levels)} to levels"
    if subject.capabilities != "all":
        for name in subject.capabilities:
            if name not in CAPABILITIES:
                yield f"capabilities: there is no {name!r}", nearest(name, CAPABILITIES)
    for level, fields in subject.observes.items():
        if level not in subject.levels:
            yield f"observes: {level} is none of its levels", f"add {level} to levels, or leave it out"
        for name in fields:
            if name not in FIELDS[level]:
                yield f"observes: {level} has no {name!r}", nearest(name, FIELDS[level])
        yield from _plans_of_no_status(level, fields)
    yield from _unusable(subject)
    yield from _faults_in_serving(subject)


def _plans_of_no_status(level: Level, fields: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Whether a plan came out decides which fields it has, so nothing of it is compared unless that is."""
    prefix = {"plan": "", "schedule": "plan."}.get(level)
    seen = [name for name in fields if prefix is not None and name.startswith(prefix)]
    status = f"{prefix}status"
    if seen and status not in seen:
        yield f"observes: {level} has {seen[0]} without {status}", f"add {status}, or take {seen[0]} out"


def _unusable(subject: Subject) -> Iterator[tuple[str, str]]:
    """Texts that no process could be started with, the server's apart."""
    door = subject.door
    texts: list[tuple[str, Iterable[str]]] = [("records", [subject.records]), ("folder", [subject.folder])]
    if door.scheduler_cls is not None:
        texts.append(("door.scheduler-cls: path", door.scheduler_cls.path))
    if door.process is not None:
        texts.append(("door.process: command", door.process.command))
        texts.append(("door.process: environment", door.process.environment.values()))
    yield from launcher.unusable(() if door.process is None else door.process.environment, texts)


def _faults_in_serving(subject: Subject) -> Iterator[tuple[str, str]]:
    if subject.door.serve is not None:
        for fault, hint in launcher.faults(subject.door.serve.launcher(subject.name)):
            yield f"door.serve: {fault}", hint
    if subject.door.http is not None and not subject.door.http.is_address:
        yield f"door.http: url {subject.door.http.url!r} is no address", "write it as http://HOST:PORT"
    if "serve" in subject.levels and "metrics" not in subject.can:
        hidden = unobserved(subject.observes, "serve")
        shown = [field for field in FROM_METRICS if field not in hidden]
        if shown:
            yield (
                f"observes: serve shows {' and '.join(shown)}, which are read from /metrics",
                f"claim the capability metrics, or let observes.serve be without {' and '.join(FROM_METRICS)}",
            )

"""From a file to a record: front matter, sections, and the findings beside it; every fault names file and line."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from parity.errors import RecordError
from parity.records import yamltext
from parity.records.record import Exemplar, Front, Record, Section
from parity.scenario import Json

FOLDER = "records"
COMPANION = ".findings.yaml"
_FENCE = "---"
_PLACE = re.compile(r" - at `\$?\.?([^`]*)`$")


class Companion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`<slug>.findings.yaml`: the exemplars of a difference that are too many to stand in the record."""

    record: str
    exemplars: list[Exemplar]


class Raw(msgspec.Struct, frozen=True):
    """A record's file as text, with its front matter as plain values that nothing has checked yet.

    `lines` and `spans` are in the whole file: lines from 1, spans as offsets. `companion` is the text of
    the findings beside it, or null.
    """

    id: str
    path: str
    text: str
    values: dict[str, Json]
    lines: dict[yamltext.Keys, int]
    spans: dict[yamltext.Keys, tuple[int, int]]
    sections: tuple[Section, ...]
    companion: str | None = None

    @property
    def companion_path(self) -> str:
        return self.path.removesuffix(".md") + COMPANION

    def line(self, *keys: str | int) -> int:
        """The line of a value, or of the nearest thing around it that the file has."""
        for length in range(len(keys), 0, -1):
            if keys[:length] in self.lines:
                return self.lines[keys[:length]]
        return 1


def load_records(root: Path, folder: Path | None = None) -> tuple[Record, ...]:
    """Every record of `folder` (default: the engine's), ordered by id. Raises RecordError at the first that is none."""
    return tuple(to_record(read_raw(root, path)) for path in record_paths(root, folder))


def record_paths(root: Path, folder: Path | None = None) -> list[Path]:
    """The files of a records' folder that are records: those one folder down; a README at the top is none."""
    folder = folder or root / FOLDER
    paths = sorted(path for path in folder.rglob("*.md") if path.parent != folder)
    for path in paths:
        if path.parent.parent != folder:
            raise RecordError(_shown(root, path), "a record lives in records/<area>/<slug>.md")
    for path in sorted(folder.rglob(f"*{COMPANION}")):
        if path.with_name(path.name.removesuffix(COMPANION) + ".md") not in paths:
            raise RecordError(_shown(root, path), "there is no record beside these findings")
    return paths


def records_digest(root: Path, folder: Path | None = None) -> str:
    """Digest of a record set, names and contents, as a run's header holds it."""
    total = hashlib.sha256()
    folder = folder or root / FOLDER
    for path in sorted(folder.rglob("*")):
        if path.is_file() and (path.suffix == ".md" or path.name.endswith(COMPANION)):
            name = path.relative_to(folder).as_posix()  # the same wherever the folder is
            total.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return f"sha256:{total.hexdigest()}"


def read_raw(root: Path, path: Path) -> Raw:
    """The file at `path`, read but not checked. Raises RecordError where it has no front matter."""
    beside = path.with_name(path.name.removesuffix(".md") + COMPANION)
    companion = _read_text(root, beside) if beside.is_file() else None
    return parse_text(_read_text(root, path), _shown(root, path), companion)


def parse_text(text: str, path: str, companion: str | None = None) -> Raw:
    """A record's text as Raw; `path` is from the root where it lies below that, and its end gives the id."""
    rows = text.splitlines(keepends=True)
    if not rows or rows[0].strip() != _FENCE:
        raise RecordError(path, "does not start with front matter (a line of three dashes)", line=1)
    end = next((index for index, row in enumerate(rows[1:], start=1) if row.strip() == _FENCE), None)
    if end is None:
        raise RecordError(path, "the front matter has no end (a second line of three dashes)", line=1)
    try:
        document = yamltext.read("".join(rows[1:end]))
    except yamltext.Fault as fault:
        raise RecordError(path, fault.message, line=fault.line + 1) from None
    if not isinstance(document.value, dict):
        raise RecordError(path, "the front matter is no list of keys and values", line=2)
    offset = len(rows[0])
    return Raw(
        id="/".join(path.rsplit("/", 2)[-2:]).removesuffix(".md"),
        path=path,
        text=text,
        values=document.value,
        lines={keys: line + 1 for keys, line in document.lines.items()},
        spans={keys: (start + offset, stop + offset) for keys, (start, stop) in document.spans.items()},
        sections=tuple(_sections(rows, end + 1)),
        companion=companion,
    )


def to_record(raw: Raw) -> Record:
    """The typed record. Raises RecordError, which names the line, where a value is not what it must be."""
    try:
        front = msgspec.convert(raw.values, Front)
    except msgspec.ValidationError as error:
        message, keys = _explain(error)
        hint = "`parity record lint` says which keys and values a record takes"
        raise RecordError(raw.path, message, line=raw.line(*keys), hint=hint) from None
    companion = read_companion(raw)
    if companion is not None:
        front = msgspec.structs.replace(front, exemplars=[*front.exemplars, *companion.exemplars])
    return Record(id=raw.id, path=raw.path, front=front, sections=raw.sections)


def read_companion(raw: Raw) -> Companion | None:
    """The findings beside the record, or null where there are none. Raises RecordError."""
    if raw.companion is None:
        return None
    try:
        document = yamltext.read(raw.companion)
    except yamltext.Fault as fault:
        raise RecordError(raw.companion_path, fault.message, line=fault.line) from None
    try:
        return msgspec.convert(document.value, Companion)
    except msgspec.ValidationError as error:
        message, keys = _explain(error)
        line = document.lines.get(keys[:1], 1)
        raise RecordError(raw.companion_path, message, line=line) from None


def _explain(error: msgspec.ValidationError) -> tuple[str, tuple[str, ...]]:
    """The library's message in our words, and the keys of the place that it speaks of."""
    text = str(error)
    found = _PLACE.search(text)
    if found is None:
        return text, ()
    place = found.group(1)
    keys = tuple(part.removesuffix("[...]") for part in place.split(".") if part)
    return f"{place}: {text[: found.start()]}", keys


def _shown(root: Path, path: Path) -> str:
    """The path as messages and records have it: from the project's root, where it lies below that."""
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()


def _read_text(root: Path, path: Path) -> str:
    name = _shown(root, path)
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise RecordError(name, "is not UTF-8 text", hint="save the file as UTF-8") from None
    except OSError as error:
        raise RecordError(name, f"cannot be read: {error.strerror}") from None


def _sections(rows: list[str], start: int) -> Iterator[Section]:
    """The `## ` sections from row `start` on; headings within fenced code are text."""
    title, body, line, fenced = None, [""], 0, False
    for number, row in enumerate(rows[start:], start=start + 1):
        if row.lstrip().startswith("```"):
            fenced = not fenced
        if row.startswith("## ") and not fenced:
            if title is not None:
                yield Section(title, "".join(body), line)
            title, body, line = row[3:].strip(), [], number
        else:
            body.append(row)
    if title is not None:
        yield Section(title, "".join(body), line)

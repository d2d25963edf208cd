"""How a record is laid out as text, and how text reaches the disk: whole, or not at all."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from parity import wholefile
from parity.errors import RecordError
from parity.interrupts import uninterrupted
from parity.records import yamltext
from parity.records.observed import observed
from parity.records.parse import Companion
from parity.records.record import MAX_INLINE, Exemplar, Front
from parity.records.rules import PLACEHOLDER
from parity.records.rules_prose import CORRECTIONS, OBSERVED, PROSE
from parity.scenario import Json

_ORDER = (
    *("title", "kind", "state", "decision", "fingerprints", "attribution", "exemplars", "scenario", "policy"),
    *("diverging", "scope", "oracle", "anchors", "references", "owner", "proposed", "decided", "reason"),
    *("expires", "on_bump"),
)
_ASKED = {
    "Decision": "what is decided, in one or two sentences",
    "Why": "the reason, with what upstream's source and the measurements say",
    "What a user notices": "what somebody who runs the engine sees of this",
    "Reconsider when": "the event that makes this decision wrong",
}


def front_text(front: Front) -> str:
    """The front matter as YAML, the three dashes not included; exemplars beyond the inline ones are left out."""
    values: dict[str, Json] = msgspec.to_builtins(front, builtin_types=(datetime.date,))
    values["exemplars"] = [_entry(entry) for entry in split_exemplars(front)[0]]
    values["diverging"] = [_entry(entry) for entry in front.diverging]
    defaults = {field.encode_name: field.default for field in msgspec.structs.fields(Front)}
    optional = {"kind", "policy", "diverging", "scenario", "reason"}
    optional |= (
        {"decision", "fingerprints", "attribution", "exemplars"} if front.kind == "falsified" else set()
    )
    kept = {
        key: values[key]
        for key in _ORDER
        if not (key in optional and (values[key] == defaults[key] or values[key] == []))
    }
    for key in ("proposed", "decided"):
        if kept[key] is not None and not kept[key]["solo"]:
            del kept[key]["solo"]
    return yamltext.write(kept)


def draft_text(front: Front) -> str:
    """A whole new record: everything but the prose, for which each section says what belongs there."""
    return whole_text(front, {title: f"{PLACEHOLDER}: {_ASKED[title]}" for title in PROSE})


def whole_text(front: Front, prose: Mapping[str, str]) -> str:
    """A whole new record, with the text of each section of its prose."""
    parts = [f"---\n{front_text(front)}---\n", f"\n## {OBSERVED}\n\n{observed(front)}"]
    parts += [f"\n## {title}\n\n{prose[title]}\n" for title in PROSE]
    parts.append(f"\n## {CORRECTIONS}\n")
    return "".join(parts)


def split_exemplars(front: Front) -> tuple[Sequence[Exemplar], Sequence[Exemplar]]:
    """The exemplars that stand in the record, and those that stand beside it."""
    return front.exemplars[:MAX_INLINE], front.exemplars[MAX_INLINE:]


def companion_text(name: str, front: Front) -> str | None:
    """The findings beside the record, or null where none are needed."""
    beside = split_exemplars(front)[1]
    if not beside:
        return None
    companion = Companion(record=name, exemplars=list(beside))
    return yamltext.write({"record": companion.record, "exemplars": [_entry(entry) for entry in beside]})


def create(path: Path, text: str) -> None:
    """Writes a file that must not exist yet. Raises RecordError."""
    try:
        wholefile.create(path, text)
    except FileExistsError:
        raise RecordError(
            path, "exists already, and is not overwritten", hint="pass another --slug"
        ) from None
    except OSError as error:
        raise RecordError(_shown(path), f"cannot be written: {error.strerror}") from None


def create_all(files: Mapping[Path, str]) -> None:
    """Writes files of which none may exist yet: all of them, or, whatever happens on the way, none.

    Raises RecordError.
    """
    written: list[Path] = []
    folders = [folder for folder in _folders(files) if not folder.exists()]
    with uninterrupted():
        try:
            for path, text in files.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("x", encoding="utf-8", newline="") as file:
                    written.append(path)
                    file.write(text)
        except OSError as error:
            for there in written:
                there.unlink()
            for folder in reversed(folders):
                with contextlib.suppress(OSError):  # it was not made, or somebody else put something there
                    folder.rmdir()
            reason = (
                "exists already"
                if isinstance(error, FileExistsError)
                else f"cannot be written: {error.strerror}"
            )
            raise RecordError(_shown(path), reason, hint="no record was written") from None


def replace(path: Path, text: str) -> None:
    """Replaces a file in one step, so that it is never seen half written. Raises RecordError."""
    try:
        wholefile.replace(path, text)
    except OSError as error:
        raise RecordError(_shown(path), f"cannot be written: {error.strerror}") from None


def _folders(files: Iterable[Path]) -> list[Path]:
    """Every folder that the files are in, each after the one that it is in."""
    return sorted({folder for path in files for folder in path.parents}, key=lambda folder: len(folder.parts))


def _shown(path: Path) -> Path:
    """The path as messages have it: from the working directory, where it lies below that."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _entry(entry: msgspec.Struct) -> dict[str, Json]:
    built = msgspec.to_builtins(entry)
    assert isinstance(built, dict)
    return built

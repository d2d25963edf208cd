"""`hunt.jsonl`: what a hunt was and what each of its units showed, one JSON object a line, written as it comes.

Lines, in this order: one `header`, one `unit` for each unit that was done, one `find` for each finding after it was
shrunk. There is no footer: a hunt that is cut short has shown what it has shown. Hunts of one seed that were split over
machines are joined by their units' indexes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from parity import wholefile
from parity.errors import RunFileError, UsageError
from parity.fuzz.unit import Done, Reduced
from parity.runlog import Pin
from parity.scenario import Level

FORMAT = 1
NAME = "hunt.jsonl"


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="line", tag="header"):
    """What a hunt was made of. `shard` is [i, n]: the units whose index is i - 1 modulo n."""

    format: int
    pin: Pin
    commit: str | None
    dirty: bool
    machine: str
    records: str
    model_runner: str
    level: Level
    seed: int
    size: int
    policies: dict[str, str]
    shard: tuple[int, int]

    @property
    def question(self) -> dict[str, object]:
        """What hunts must share to be parts of one."""
        return {field: getattr(self, field) for field in self.__struct_fields__ if field not in _OF_A_PART}


_OF_A_PART = ("format", "machine", "model_runner", "shard")


class UnitLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="line", tag="unit"):
    done: Done


class FindLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="line", tag="find"):
    reduced: Reduced


Line = Header | UnitLine | FindLine
_LINES: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


class Log(msgspec.Struct, frozen=True):
    """A hunt's file, as read."""

    header: Header
    units: tuple[Done, ...]
    finds: tuple[Reduced, ...]


class Writer:
    """Writes a new folder with the log of one hunt, each line on its way to the disk before `put` returns.

    As a context it is closed at the end, and a hunt that an error ends before anything was done leaves nothing.
    Raises UsageError for a folder that has a hunt already, RunFileError for what the disk refuses.
    """

    def __init__(self, folder: Path, header: Header) -> None:
        self.path = folder / NAME
        self._lines = 0
        self._is_new = not folder.exists()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("xb", buffering=0)
        except FileExistsError:
            raise UsageError(f"{self.path} exists already", hint="name another folder with --out") from None
        except OSError as error:
            raise _cannot(self.path, error) from None
        self.put(header)

    def put(self, line: Line) -> None:
        try:
            wholefile.put(self._file, msgspec.json.encode(line) + b"\n")
        except OSError as error:
            raise _cannot(self.path, error) from None
        self._lines += 1

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if isinstance(error, Exception) and self._lines == 1:
            self.path.unlink()
            if self._is_new:
                self.path.parent.rmdir()


def read_log(folder: Path) -> Log:
    """The hunt in this folder (or this file). A last line that was cut short is left out.

    Raises UsageError where there is none, RunFileError for a file that is no hunt's.
    """
    path = file_of(folder)
    try:
        rows = path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        raise UsageError(f"there is no hunt in {folder}", hint=f"`parity fuzz` writes {NAME}") from None
    except OSError as error:
        raise RunFileError(f"the hunt {path} cannot be read: {error.strerror}") from None
    if rows and not rows[-1].endswith(b"\n"):
        rows.pop()
    lines = [_decode(path, number, row) for number, row in enumerate(rows, start=1)]
    header = lines[0] if lines else None
    if not isinstance(header, Header):
        raise RunFileError(f"{path}:1: is no hunt (its first line is no header)")
    units = tuple(line.done for line in lines if isinstance(line, UnitLine))
    return Log(header, units, tuple(line.reduced for line in lines if isinstance(line, FindLine)))


def file_of(folder: Path) -> Path:
    """The log of the hunt in this folder; a file is taken for one itself."""
    return folder if folder.is_file() else folder / NAME


def is_log(path: Path) -> bool:
    """Whether a hunt's log is there: a file that begins with its header, or a folder that holds one of its name."""
    try:
        with file_of(path).open("rb") as file:
            return isinstance(_LINES.decode(file.readline()), Header)
    except (OSError, msgspec.DecodeError):
        return False


def check_parts(logs: Sequence[Log], names: Sequence[str]) -> None:
    """Whether these hunts are parts of one. Raises UsageError that names the first that is not."""
    for log, name in zip(logs[1:], names[1:], strict=True):
        if log.header.question != logs[0].header.question:
            raise UsageError(
                f"{name} is no part of the hunt in {names[0]}: {_why(logs[0].header, log.header)}",
                hint="join hunts of one commit, pin, level, seed and policy only",
            )


def _why(first: Header, other: Header) -> str:
    ours, theirs = first.question, other.question
    field = next(field for field in ours if ours[field] != theirs[field])
    return f"its {field} is {theirs[field]}, and not {ours[field]}"


def _decode(path: Path, number: int, row: bytes) -> Line:
    try:
        line = _LINES.decode(row)
    except msgspec.DecodeError as error:
        raise RunFileError(f"{path}:{number}: is no line of a hunt: {error}") from None
    if isinstance(line, Header) and line.format != FORMAT:
        raise RunFileError(f"{path}:{number}: hunt format {line.format}, not {FORMAT}", hint="hunt again")
    return line


def _cannot(path: Path, error: OSError) -> RunFileError:
    return RunFileError(
        f"the hunt {path} cannot be written: {error.strerror}", hint="name another folder with --out"
    )

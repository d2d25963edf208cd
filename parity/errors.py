"""The exception tree and the exit codes, in one place, because scripts and CI rely on both.

ParityError
├── UsageError          64  the command line, a scenario, a record or a checkout is not usable as it stands
│   ├── ScenarioError       a scenario file: names file, line and key
│   └── RecordError         a record file: names file, line and field
├── InconclusiveError    2  nothing could be concluded
│   ├── OracleError         the oracle is missing, is not the pin, died or broke the protocol
│   └── RunFileError        a run file could not be written, or has no footer
├── Interrupted        130  stopped by Ctrl-C or a signal in the middle of a run
└── HarnessError        70  a fault of our own

Every error is rendered by the command line as one line: what happened, and what to do about it.
"""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path


class ExitCode(IntEnum):
    """What a command's exit status says; the table is docs/verdicts.md."""

    OK = 0
    FINDINGS = 1
    INCONCLUSIVE = 2
    USAGE = 64
    HARNESS = 70
    INTERRUPTED = 130


class ParityError(Exception):
    """Base of everything that the command line shows without a traceback."""

    exit_code: ExitCode = ExitCode.HARNESS

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message} — {self.hint}"


class UsageError(ParityError):
    exit_code = ExitCode.USAGE


class _FileError(UsageError):
    """A fault at a place in a file that a person wrote."""

    def __init__(
        self, path: Path | str, message: str, *, line: int | None = None, hint: str | None = None
    ) -> None:
        where = f"{path}:{line}" if line is not None else str(path)
        super().__init__(f"{where}: {message}", hint=hint)
        self.path = path
        self.line = line


class ScenarioError(_FileError):
    """A scenario that cannot be played; `line` counts from 1."""


class RecordError(_FileError):
    """A record that cannot decide anything; `line` counts from 1."""


class InconclusiveError(ParityError):
    exit_code = ExitCode.INCONCLUSIVE


class OracleError(InconclusiveError):
    """The reference cannot be asked, or did not answer."""


class RunFileError(InconclusiveError):
    """A run file that could not be written whole, or cannot be trusted."""


class Interrupted(ParityError):
    """A run that somebody stopped; the message says where what was played is."""

    exit_code = ExitCode.INTERRUPTED


class HarnessError(ParityError):
    exit_code = ExitCode.HARNESS

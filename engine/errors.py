"""What stops the engine's command, as one line and an exit code, in one place because scripts rely on both.

EngineError
├── UsageError      64  the command line asks for what cannot be: a wrong flag, path or configuration
│   └── ModelError      the model it names cannot be used: no such folder, damaged, of a family that nobody computes
└── StartupError     1  this machine cannot do it now: no memory, no weights, a port in use

A fault of our own is exit 70, and the only one that shows a traceback.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the exit status of `nullblock` says."""

    OK = 0
    FAILED = 1
    USAGE = 64
    OWN_FAULT = 70


class EngineError(Exception):
    """Base of everything that the command line shows without a traceback: what happened, and what to do."""

    exit_code: ExitCode = ExitCode.FAILED

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message} — {hint}")


class UsageError(EngineError):
    exit_code = ExitCode.USAGE


class ModelError(UsageError):
    """Also what a model's loading raises; `engine.startup.load_llm` makes a StartupError of that."""


class StartupError(EngineError):
    exit_code = ExitCode.FAILED

"""What verbs tell the user: the result on stdout, everything else as lines on stderr."""

from __future__ import annotations

import os
import sys

from engine.errors import StartupError


class OutputLost(StartupError):
    """The result cannot be written: a full disk, a closed stdout."""


def say(line: str) -> None:
    """A line of progress, at once."""
    print(f"nullblock: {line}", file=sys.stderr, flush=True)


def show(text: str, end: str = "\n") -> None:
    """A part of the result, at once. Raises OutputLost, and BrokenPipeError when nobody reads any more."""
    if sys.stdout is None:
        raise OutputLost("there is no stdout to write the result to")
    try:
        print(text, end=end, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputLost(f"the result cannot be written to stdout ({error.strerror})") from error


def abandon_stdout() -> None:
    """What could not be written must not be tried again when the process ends."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

"""Stdout as a thing that can go away: a reader that leaves changes no exit code, a full disk is one line."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

from parity.errors import InconclusiveError


@contextlib.contextmanager
def until_the_reader_leaves() -> Iterator[None]:
    """Around printing. A closed pipe (`| head`) ends the printing only.

    Raises InconclusiveError where stdout cannot be written for another reason.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        silence()
    except OSError as error:
        silence()
        raise InconclusiveError(
            f"the output cannot be written: {error.strerror}", hint="free some space"
        ) from None


def silence() -> None:
    """Point stdout at nothing, so that what is left in its buffer raises nothing at exit."""
    with contextlib.suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)

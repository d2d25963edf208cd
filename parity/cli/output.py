"""Stdout and stderr as things that can go away, so that neither decides what a command ends with.

A reader of the results that leaves (`| head`), or was never there (`>&-`), changes no exit code, and a disk that is full
is one line. Stderr is for people to look at: where it cannot be written, nothing is said.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from parity.errors import InconclusiveError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

STANDARD = (0, 1, 2)  # descriptors: stdin, stdout, stderr
GONE = (errno.EPIPE, errno.EBADF)


def make_steady() -> None:
    """Let this process print through `Results` and `Remarks`. A stream that somebody replaced is left as it is."""
    _fill_descriptors()
    if sys.stdout is None or sys.stdout is sys.__stdout__:
        sys.stdout = text(Results(1, "w", closefd=False), sys.stdout)
    if sys.stderr is None or sys.stderr is sys.__stderr__:
        sys.stderr = text(Remarks(2, "w", closefd=False), sys.stderr, line_buffering=True)


@contextmanager
def written_out() -> Iterator[None]:
    """Around all of a command: what it printed is on its way when it ends, `--help` included.

    Raises InconclusiveError where stdout cannot be written.
    """
    try:
        yield
    except SystemExit:
        sys.stdout.flush()
        raise
    sys.stdout.flush()


class Results(io.FileIO):
    """Stdout. Raises InconclusiveError, once, where it cannot be written though its reader is there."""

    _is_lost = False

    def write(self, data: ReadableBuffer, /) -> int:
        if self._is_lost:
            return memoryview(data).nbytes
        try:
            return super().write(data) or 0
        except OSError as error:
            self._is_lost = True
            if error.errno in GONE:
                return memoryview(data).nbytes
            raise InconclusiveError(
                f"the output cannot be written: {error.strerror}", hint="free some space"
            ) from None


class Remarks(io.FileIO):
    """Stderr. What cannot be written is dropped."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data) or memoryview(data).nbytes
        except OSError:
            return memoryview(data).nbytes


def _fill_descriptors() -> None:
    """A standard descriptor that is closed would be the next file's that is opened, and prints would go into it."""
    for number in STANDARD:
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest that is free: `number`


def text(raw: io.FileIO, like: TextIO | None, *, line_buffering: bool = False) -> TextIO:
    """A text stream as the interpreter makes them; what its encoding lacks is written as an escape."""
    at_once = isinstance(like, io.TextIOWrapper) and (like.line_buffering or like.write_through)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=None if like is None else like.encoding,
        errors="backslashreplace",
        line_buffering=line_buffering or at_once,
    )

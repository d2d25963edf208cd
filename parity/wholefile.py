"""How text reaches the disk: a file that was not there, or another in the place of one, and never half of it.

All raise OSError, which says what is in the way.
"""

from __future__ import annotations

import contextlib
import os
from io import RawIOBase
from pathlib import Path


def create(path: Path, text: str) -> None:
    """Write a file where none may be yet (FileExistsError), with the folders that it needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8", newline="") as file:
        file.write(text)


def replace(path: Path, text: str) -> None:
    """Write a file in one step, in the place of the one that may be there, with the folders that it needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def put(file: RawIOBase, data: bytes) -> None:
    """All of the data into a file that was opened without a buffer, which may take less than it is given."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) or 0 :]

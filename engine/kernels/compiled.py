"""Where compiled kernels are kept, and compiling them: by one process at a time, and anew where a file is broken.

The folder is named after the digest of every kernel's source, because a part that changes is compiled into others.
numba's own index of it is read, changed and written back: two processes at once would mix up each other's code.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba

HERE = Path(__file__).parent


def _parents() -> Iterator[Path]:
    """Where the folder may be, the first that can be written to: what the user chose, beside the source, at home."""
    if numba.config.CACHE_DIR:
        yield Path(numba.config.CACHE_DIR)
        return
    yield HERE / "__pycache__"
    with contextlib.suppress(RuntimeError):  # nobody's home
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nullblock"


def _folder() -> Path | None:
    sources = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(HERE.glob("*.py"))))
    for parent in _parents():
        folder = parent / f"kernels-{sources.hexdigest()[:16]}"
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                return folder
    return None


FOLDER = _folder()
if FOLDER is not None:
    numba.config.CACHE_DIR = str(FOLDER)


def kept(decorate: Callable[..., Any], function: Callable[..., Any]) -> Any:
    """Compile, or take what was kept; what cannot be read is thrown away, and what cannot be kept is not."""
    if FOLDER is None:
        return decorate(cache=False)(function)
    with _locked(FOLDER):
        try:
            return decorate(cache=True)(function)
        except Exception:  # noqa: BLE001 - whatever a broken file provokes; what is wrong otherwise is raised below
            shutil.rmtree(FOLDER, ignore_errors=True)
        try:
            return decorate(cache=True)(function)
        except OSError:
            return decorate(cache=False)(function)


def is_kept(name: str) -> bool:
    """Whether all that `name` stands for was compiled before and kept."""
    return FOLDER is not None and (FOLDER / f"{name}.done").exists()


def keep(name: str) -> None:
    """Note that all that `name` stands for is compiled."""
    if FOLDER is not None:
        with contextlib.suppress(OSError):  # a full disk
            (FOLDER / f"{name}.done").touch()


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(folder.with_suffix(".lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

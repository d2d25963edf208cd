"""Where compiled kernels are kept, and compiling them: by one process at a time, and anew where a file is broken.

The folder is named after the digest of every kernel's source, because a part that changes is compiled into others.
numba's own index of it is read, changed and written back: two processes at once would mix up each other's code.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numba

HERE = Path(__file__).parent
T = TypeVar("T")


def _folder() -> Path:
    chosen = numba.config.CACHE_DIR  # by NUMBA_CACHE_DIR
    parent = Path(chosen) if chosen else HERE / "__pycache__"
    sources = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(HERE.glob("*.py"))))
    return parent / f"kernels-{sources.hexdigest()[:16]}"


FOLDER = _folder()
numba.config.CACHE_DIR = str(FOLDER)


def compiling(decorate: Callable[..., Any], function: Callable[..., Any], **options: Any) -> Any:
    """Decorate with a cache, or without one where there is no folder to keep it in."""
    try:
        return decorate(cache=True, error_model="numpy", **options)(function)
    except RuntimeError as error:
        if "cache" not in str(error):
            raise
        return decorate(error_model="numpy", **options)(function)


def alone(compile_: Callable[[], T]) -> T:
    """Compile, or take what was kept, while no other process does; what cannot be read is thrown away."""
    with _locked():
        try:
            return compile_()
        except Exception:
            if not any(FOLDER.glob("**/*.nb?")):
                raise
            shutil.rmtree(FOLDER, ignore_errors=True)
            return compile_()


def is_kept(name: str) -> bool:
    """Whether all that `name` stands for was compiled before and kept."""
    return (FOLDER / f"{name}.done").exists()


def keep(name: str) -> None:
    """Note that all that `name` stands for is compiled."""
    with contextlib.suppress(OSError):  # nothing is kept where nothing can be written
        (FOLDER / f"{name}.done").touch()


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    try:
        import fcntl

        FOLDER.parent.mkdir(parents=True, exist_ok=True)
        lock = open(FOLDER.with_suffix(".lock"), "w", encoding="ascii")  # noqa: SIM115 - closed below
    except (ImportError, OSError):
        yield  # another system, or a folder that nobody can write to
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

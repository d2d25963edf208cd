"""Where run files live, and what a run's header says of the tree and the machine."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import subprocess
from pathlib import Path

from parity.errors import UsageError
from parity.runlog import is_special

FOLDER = "runs"
LATEST = "run.jsonl"
GIT_SECONDS = 10


def run_path(root: Path, out: Path | None) -> Path:
    """The file that a run will write: `out`, or a new one in `runs/`.

    Raises UsageError where anything is already, but for a device or a pipe, which can be written to and not replaced.
    """
    if out is not None:
        place = out.resolve()
        if place.is_dir():
            raise UsageError(f"{out} is a folder", hint="name a file in it with --out")
        if place.exists() and not is_special(place):
            raise UsageError(f"{out} exists already", hint="name another file with --out, or move it away")
        return place
    return root / FOLDER / f"{stamp()}.jsonl"


def stamp() -> str:
    """A name that no other run of this machine has: the time, and this process."""
    return f"{datetime.datetime.now(datetime.UTC).strftime('%Y%m%dT%H%M%S.%f')}-{os.getpid()}"


def shown(root: Path, path: Path) -> Path:
    """The path as reports have it: from the project's root, where it lies below that."""
    return path.relative_to(root) if path.is_relative_to(root) else path


def point_latest(root: Path, path: Path) -> None:
    """Let `run.jsonl` at the root lead to the newest finished run; a file of that name is left alone."""
    link = root / LATEST
    if link.exists() and not link.is_symlink():
        return
    aside = root / f".{LATEST}.{os.getpid()}"
    with contextlib.suppress(OSError):  # only a convenience: the run file itself is whole and was named
        aside.symlink_to(path.relative_to(root))
        aside.replace(link)


def describe_machine() -> str:
    """The machine in one line, without its name: system, architecture, cores, Python."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def describe_tree(root: Path) -> tuple[str | None, bool]:
    """The checkout's commit and whether anything in it is uncommitted; (None, True) outside a git checkout."""
    commit = _git(root, "rev-parse", "HEAD")
    if commit is None:
        return None, True
    return commit.strip(), bool(_git(root, "status", "--porcelain"))


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None

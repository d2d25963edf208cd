"""Runs the steps of a set-up: one line a step, signs of life while it lasts, evidence when it fails.

Downloads and installations take minutes, and most failures are the machine's (no network, a full disk, a Python
without venv). So whoever starts a step names it, and a failure comes back with the command, the end of what
it printed, and the way out.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from oracle.errors import OracleFault

TAIL_LINES = 15
FIRST_SIGN_SECONDS = 2.0
LOG_SECONDS = 10.0  # between signs of life in a log; a terminal's line is renewed every second
WIDTH = 96

# What a tool printed, and the way out; the first that matches wins.
WAYS_OUT: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("No space left on device", "Disk quota exceeded"),
        "the disk is full: free some space (the oracle takes 3 GB while it is installed) and run it again",
    ),
    (
        ("ensurepip is not available", "No module named venv", "No module named ensurepip"),
        "this Python has no venv module: install it (Debian and Ubuntu: apt install python3-venv), "
        "or choose another interpreter with `make PYTHON=python3.11 …`",
    ),
    (
        (
            "Temporary failure in name resolution",
            "Name or service not known",
            "NewConnectionError",
            "Network is unreachable",
            "Connection refused",
            "ConnectTimeoutError",
            "ReadTimeoutError",
            "ProxyError",
            "SSLError",
        ),
        "the package index cannot be reached: check the network (or pip's proxy and index settings) and run it again",
    ),
    (
        ("No matching distribution found",),
        "the package index that pip uses does not have this version for this Python: use Python 3.11 on x86_64 "
        "Linux, or another index",
    ),
    (
        ("Permission denied", "Read-only file system", "Not a directory", "File exists"),
        "make that a folder you can write to, or set NULLBLOCK_ENVS to one that is",
    ),
)


def way_out(output: str) -> str:
    """What to do about a failed step, read from what its tool printed."""
    for signs, advice in WAYS_OUT:
        if any(sign in output for sign in signs):
            return advice
    return (
        "mend what the output above says and run the same command again; a half-made environment is made anew"
    )


class Progress:
    """Progress lines on one stream, each with the seconds since the set-up began."""

    def __init__(self, name: str, stream: TextIO | None = None) -> None:
        self.name = name
        self._stream = stream if stream is not None else sys.stderr
        self._began = time.monotonic()
        self._live = self._stream.isatty()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def say(self, text: str) -> None:
        """A line that stays."""
        self._write(text, end="\n")

    def sign(self, text: str) -> None:
        """A sign of life: a line of its own in a log, the renewed last line on a terminal."""
        self._write(text[:WIDTH], end="" if self._live else "\n")

    def _write(self, text: str, end: str) -> None:
        start = "\r\x1b[K" if self._live else ""
        self._stream.write(f"{start}{self.name} {self.seconds:6.1f}s  {text}{end}")
        self._stream.flush()

    def run(
        self, what: str, command: Sequence[str | Path], env: Mapping[str, str], cwd: Path | None = None
    ) -> None:
        """Run one step to its end. Raises OracleFault with the evidence when it fails."""
        self.say(what)
        words = [str(word) for word in command]
        try:
            process = subprocess.Popen(
                words,
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise OracleFault(
                f"{what}: {words[0]} cannot be started ({error.strerror})", way_out(str(error))
            ) from error
        output = self._watch(what, process)
        if process.returncode != 0:
            tail = "\n".join(f"    {line}" for line in output[-TAIL_LINES:])
            raise OracleFault(
                f"this step failed: {what} (exit status {process.returncode})",
                way_out("\n".join(output)),
                detail=f"  command: {shlex.join(words)}\n  its last lines:\n{tail}",
            )

    def _watch(self, what: str, process: subprocess.Popen[str]) -> list[str]:
        """Wait for the process, showing its latest line from time to time; its last output lines."""
        lines: deque[str] = deque(maxlen=400)
        reader = threading.Thread(target=_collect, args=(process, lines), daemon=True)
        reader.start()
        pause = FIRST_SIGN_SECONDS
        try:
            while True:
                try:
                    process.wait(timeout=pause)
                    break
                except subprocess.TimeoutExpired:
                    pause = 1.0 if self._live else LOG_SECONDS
                    self.sign(f"  … {readable(lines[-1]) if lines else what}")
        except BaseException:
            process.kill()
            process.wait()
            raise
        reader.join(timeout=5)
        return list(lines)


def _collect(process: subprocess.Popen[str], lines: deque[str]) -> None:
    """Keep what the process prints; pip's remarks on indexes that lack a package are no news."""
    assert process.stdout is not None
    with process.stdout as output:
        for line in output:
            text = line.rstrip()
            if text and "is ignored: it is neither a file nor a directory" not in text:
                lines.append(text)


def readable(line: str) -> str:
    """A tool's line in short: pip's list of all packages that it installs becomes their number."""
    head, colon, rest = line.strip().partition(": ")
    if colon and head == "Installing collected packages":
        return f"{head}: {rest.count(',') + 1} of them"
    return line.strip()

"""A side of the text bench: a process behind the lines of oracle/generation.py, every wait bounded.

A side that cannot start, dies or stays silent is a fault with a sentence, kept and raised again by whatever is
asked of it afterwards; the bench then has no figure where it would need that side, and goes on.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol, TypeVar

import msgspec

T = TypeVar("T")

START_SECONDS = 300.0
ANSWER_SECONDS = 900.0
END_SECONDS = 10.0
LAST_WORDS = 12  # lines of stderr kept


class SideFailed(Exception):
    """A side that did not answer; the message says which and why."""


class Ready(msgspec.Struct, frozen=True):
    """What a side says of itself: `pool_bytes` of KV memory, `threads` of arithmetic."""

    name: str
    version: str
    threads: int
    pool_bytes: int


class Answer(msgspec.Struct, frozen=True):
    """What one call took and yielded, in the order of the prompts. `peak_rss` in bytes, since the side started."""

    seconds: float
    tokens: list[list[int]]
    finish_reasons: list[str | None]
    peak_rss: int

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.finish_reasons):
            raise ValueError(f"{len(self.tokens)} outputs with {len(self.finish_reasons)} finish reasons")


class _Line(msgspec.Struct, frozen=True):
    ready: Ready | None = None
    error: str | None = None


class GenerateSide(Protocol):
    """Who can be asked for text."""

    @property
    def name(self) -> str: ...

    def ready(self) -> Ready:
        """Wait until the model is loaded. Raises SideFailed."""
        ...

    def generate(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> Answer:
        """Raises SideFailed."""
        ...

    def close(self) -> None: ...


class GenerateProcess:
    """Runs `command` in `folder`; it loads while the caller does something else, until `ready` is called."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        start_seconds: float = START_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self.name = name
        self._start_seconds = start_seconds
        self._answer_seconds = answer_seconds
        self._ready: Ready | None = None
        self._fault: str | None = None
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._errors: deque[str] = deque(maxlen=LAST_WORDS)
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = subprocess.Popen(
                list(command),
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            self._fault = f"{name} cannot be started: {error.strerror}: {command[0]}"
            return
        for pump, stream in ((self._pump, self._process.stdout), (self._keep, self._process.stderr)):
            threading.Thread(target=pump, args=(stream,), daemon=True).start()

    def ready(self) -> Ready:
        if self._ready is None:
            line = self._receive(self._start_seconds)
            self._ready = self._decode(line, _Line).ready
            if self._ready is None:
                raise self._fail(f"{self.name} did not say who it is: {line[:80]!r}")
        return self._ready

    def generate(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> Answer:
        self.ready()
        process = self._process
        if process is None or process.stdin is None:
            raise self._fail(f"{self.name} is closed")
        try:
            process.stdin.write(msgspec.json.encode({"prompts": prompts, "max_tokens": max_tokens}) + b"\n")
            process.stdin.flush()
        except OSError:
            raise self._fail(f"{self.name} died{self._last_words()}") from None
        line = self._receive(self._answer_seconds)
        error = self._decode(line, _Line).error
        if error is not None:
            raise SideFailed(f"{self.name} failed: {error}")
        return self._decode(line, Answer)

    def close(self) -> None:
        """End the process and whatever it started; it gets time to end by itself first."""
        process, self._process = self._process, None
        if process is None:
            return
        end_group(process)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _fail(self, reason: str) -> SideFailed:
        self._fault = self._fault or reason
        self.close()
        return SideFailed(self._fault)

    def _receive(self, seconds: float) -> bytes:
        if self._fault is not None:
            raise SideFailed(self._fault)
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise self._fail(f"{self.name} gave no answer for {seconds:g} s{self._last_words()}") from None
        if line is None:
            raise self._fail(f"{self.name} ended{self._last_words()}")
        return line

    def _decode(self, line: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(line, type=kind)
        except msgspec.DecodeError as error:
            raise self._fail(f"{self.name} broke the protocol ({error}): {line[:80]!r}") from None

    def _last_words(self) -> str:
        lines = [line for line in self._errors if line.strip()]
        return f"; its last words: {lines[-1].strip()[:300]}" if lines else ""

    def _pump(self, stream: IO[bytes]) -> None:
        with contextlib.suppress(ValueError, OSError):  # closed under the reader when the process is ended
            for line in stream:
                self._lines.put(line)
        self._lines.put(None)

    def _keep(self, stream: IO[bytes]) -> None:
        with contextlib.suppress(ValueError, OSError):
            for line in stream:
                self._errors.append(line.decode("utf-8", "replace").rstrip())


def end_group(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, then SIGKILL, to a process that leads a session of its own and to all in it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)

"""A process that is spoken to in lines: started in a group of its own, heard without waiting for ever, killed with all it started.

Nothing here knows what the lines mean. Writing never blocks: a process that does not read shows by its silence. What
it says on stderr is kept, and its end stands in what is told of it.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from parity import interrupts

STDERR_TAIL = 12  # lines kept: the last that says something ends a message
LONGEST_TAIL = 300  # characters
LONGEST_LINE = 16 << 20  # bytes; an observation's longest line is some thousand
CHUNK = 1 << 16
TERM_SECONDS = 2.0
A_MOMENT = 1.0  # seconds, in which a process that closed its stdout is told to have ended


class Broken(Exception):
    """The process can no longer be trusted; the text says how."""


class Silence(Broken):
    """It said nothing in the time that it had."""


class LineProcess:
    """`command`, started in `folder`. Raises OSError where it cannot be."""

    def __init__(self, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        interrupts.register(self._process.pid)
        self._said: queue.Queue[bytes | None] = queue.Queue()
        self._to_say: queue.Queue[bytes | None] = queue.Queue()
        self._errors: deque[str] = deque(maxlen=STDERR_TAIL)
        self._half = b""  # of a line whose end has not come
        self._last_words = b""  # the same of stderr
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        assert stdin is not None
        assert stdout is not None
        assert stderr is not None
        _thread(self._listen, stdout)
        self._keeper = _thread(self._keep, stderr)
        _thread(self._speak, stdin)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        return self._process

    def send(self, line: bytes) -> None:
        """Have a line written; whoever cannot be written to shows when an answer is awaited."""
        self._to_say.put(line + b"\n")

    def hang_up(self) -> None:
        """No more lines will come: its stdin ends behind those that were sent."""
        self._to_say.put(None)

    def receive(self, seconds: float) -> bytes:
        """The next line, at most so long. Raises Silence, and Broken where there will be none."""
        try:
            line = self._said.get(timeout=seconds) if seconds > 0 else self._said.get_nowait()
        except queue.Empty:
            if self._process.poll() is not None:  # something it started may hold its stdout open
                raise self._ended() from None
            raise Silence(f"no answer for {seconds:g} s{self._behind()}{self.tail()}") from None
        if line is None:
            self._said.put(None)
            raise self._ended()
        return line

    def tail(self) -> str:
        """Its last words, as they end a message."""
        words = [*self._errors, self._last_words.decode("utf-8", "replace")]
        lines = [line.strip() for line in words if line.strip()]
        return f"; its last words: {lines[-1][:LONGEST_TAIL]}" if lines else ""

    def wait(self, seconds: float) -> int | None:
        """Its exit code, or null where it lives on."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def kill(self) -> None:
        """End it with its whole group. Can be called again."""
        process = self._process
        for number in (signal.SIGTERM, signal.SIGKILL):  # the first lets it remove its temporary files
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            self.wait(TERM_SECONDS)
        interrupts.unregister(process.pid)
        self._to_say.put(None)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _ended(self) -> Broken:
        code = self.wait(A_MOMENT)
        if code is None:
            told = "the process closed its stdout and lives on"
        elif code < 0:
            told = f"the process was killed by {signal.Signals(-code).name}"
        else:
            told = f"the process ended with status {code}"
        self._keeper.join(A_MOMENT)  # its last words may still be on their way
        return Broken(f"{told}{self._behind()}{self.tail()}")

    def _behind(self) -> str:
        return f" after half a line: {self._half[:80]!r}" if self._half else ""

    def _listen(self, stream: IO[bytes]) -> None:
        with contextlib.suppress(
            ValueError, OSError
        ):  # the stream is closed under the reader when it is killed
            while chunk := stream.read(CHUNK):
                *lines, self._half = (self._half + chunk).split(b"\n")
                for line in lines:
                    self._said.put(line)
                if len(self._half) > LONGEST_LINE:
                    break
        self._said.put(None)

    def _keep(self, stream: IO[bytes]) -> None:
        with contextlib.suppress(ValueError, OSError):
            while chunk := stream.read(CHUNK):
                *lines, rest = (self._last_words + chunk).split(b"\n")
                self._errors.extend(line.decode("utf-8", "replace") for line in lines)
                self._last_words = rest[-CHUNK:]

    def _speak(self, stream: IO[bytes]) -> None:
        with contextlib.suppress(ValueError, OSError):  # it is gone, or was killed
            while (line := self._to_say.get()) is not None:
                left = memoryview(line)
                while left:
                    left = left[stream.write(left) :]
            stream.close()


def _thread(work: Callable[[IO[bytes]], None], stream: IO[bytes]) -> threading.Thread:
    thread = threading.Thread(target=work, args=(stream,), daemon=True)
    thread.start()
    return thread

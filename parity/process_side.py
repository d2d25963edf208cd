"""A side in a process of its own, spoken to in JSON lines (docs/protocol.md).

Every wait is bounded. A process that dies, stays silent past its time or breaks the protocol is killed with
its whole group and started again once in a run, with the scenario played again; if that fails as well,
the scenario's play is a failure, and so are all that follow.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from parity import interrupts
from parity.errors import OracleError
from parity.observation import decode
from parity.scenario import Scenario
from parity.side import Play

STDERR_TAIL = 12  # lines kept for the message of a failure
STOP_SECONDS = 5.0
TERM_SECONDS = 2.0


class _Broken(Exception):
    """The process can no longer be trusted; the text says how."""


class _Refused(Exception):
    """The driver could not play the scenario and said so; the process is sound and goes on."""


class Limits(msgspec.Struct, frozen=True):
    """How long to wait, in seconds: for the first hello (imports included), and between two lines."""

    hello: float = 180.0
    line: float = 60.0


class ProcessSide:
    """Runs `command` in `folder` and plays scenarios on it. With `keep_native` a play has the steps' native output.

    `news` is told, in a line, of a restart.

    Raises OracleError when the process cannot be started or does not answer `hello` properly.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        limits: Limits | None = None,
        keep_native: bool = False,
        news: Callable[[str], None] | None = None,
    ) -> None:
        self._name = name
        self._news = news
        self._keep_native = keep_native
        self._command = list(command)
        self._folder = folder
        self._environment = dict(environment)
        self._limits = limits or Limits()
        self._restarts_left = 1
        self._seq = 0
        self._scenario: Scenario | None = None
        self._is_busy = False  # an answer of the process's is not there yet
        self._process: subprocess.Popen[bytes] | None = None
        self._hello: dict[str, Any] = {}
        self._start()

    @property
    def name(self) -> str:
        return self._name

    def hello(self) -> dict[str, Any]:
        """What the process said of itself. The first call waits for the handshake."""
        if not self._hello:
            try:
                self._hello = self._handshake()
            except (_Broken, _Refused) as error:
                self._kill()
                raise OracleError(
                    f"{self._name} did not start: {error}", hint="run `parity oracle verify`"
                ) from None
        return self._hello

    def begin(self, scenario: Scenario) -> None:
        self.hello()
        self._scenario = scenario
        with contextlib.suppress(_Broken):  # a dead process shows when the answer is awaited
            self._send("run", scenario)

    def finish(self) -> Play:
        scenario = self._scenario
        assert scenario is not None, "finish() without begin()"
        self._scenario = None
        if self._process is None:
            return _failure(f"{self._name} failed twice in this run and was not started a third time")
        steps: list[dict[str, Any]] = []
        try:
            return self._collect(scenario, steps)
        except _Refused as refusal:
            return _failure(str(refusal), steps)
        except _Broken as error:
            first = str(error)
        self._kill()
        if self._restarts_left == 0:
            return _failure(first, steps)
        self._restarts_left -= 1
        if self._news is not None:
            self._news(f"{self._name}: {first}; starting it again …")
        self._start()
        steps.clear()
        try:
            self._hello = self._handshake()
            self._send("run", scenario)
            return self._collect(scenario, steps)
        except _Refused as refusal:
            return _failure(str(refusal), steps)
        except _Broken as error:
            self._kill()
            return _failure(f"{error} (also after a restart; before it: {first})", steps)

    def close(self) -> None:
        if self._process is None:
            return
        if not self._is_busy:  # else it would first end what nobody waits for
            self._stop()
        self._kill()

    def _stop(self) -> None:
        assert self._process is not None
        with contextlib.suppress(_Broken):
            self._send("stop")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)

    # -- the process ----------------------------------------------------------------------------------

    def _start(self) -> None:
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._errors: deque[str] = deque(maxlen=STDERR_TAIL)
        try:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise OracleError(
                f"{self._name} cannot be started: {error.strerror}: {self._command[0]}",
                hint="run `make setup`",
            ) from None
        interrupts.register(self._process.pid)
        threading.Thread(target=_pump, args=(self._process.stdout, self._lines), daemon=True).start()
        threading.Thread(target=_keep, args=(self._process.stderr, self._errors), daemon=True).start()
        with contextlib.suppress(_Broken):
            self._send("hello")

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):  # the first lets it remove its temporary files
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(TERM_SECONDS)
        interrupts.unregister(process.pid)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _tail(self) -> str:
        lines = [line for line in self._errors if line.strip()]
        return f"; its last words: {lines[-1].strip()[:300]}" if lines else ""

    # -- the protocol ---------------------------------------------------------------------------------

    def _send(self, operation: str, scenario: Scenario | None = None) -> None:
        self._seq += 1
        message: dict[str, Any] = {"seq": self._seq, "op": operation}
        if scenario is not None:
            message["scenario"] = scenario
        process = self._process
        if process is None or process.stdin is None:
            raise _Broken("the process is gone")
        try:
            process.stdin.write(msgspec.json.encode(message) + b"\n")
            process.stdin.flush()
        except OSError:
            raise _Broken(f"the process died{self._tail()}") from None
        self._is_busy = True

    def _receive(self, seconds: float) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise _Broken(f"no answer for {seconds:g} s{self._tail()}") from None
        if line is None:
            code = self._exit_code()
            raise _Broken(f"the process ended with status {code}{self._tail()}")
        try:
            message = msgspec.json.decode(line)
        except msgspec.DecodeError:
            raise _Broken(f"a line that is not JSON: {line[:80]!r}") from None
        if not isinstance(message, dict) or message.get("seq") != self._seq:
            raise _Broken(f"a line out of turn (seq {self._seq} was asked): {line[:80]!r}")
        self._is_busy = "step" in message
        if "error" in message:
            error = message["error"]
            text = error.get("message") if isinstance(error, dict) else error
            raise _Refused(f"the driver failed: {text}")
        return message

    def _exit_code(self) -> str:
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            return str(self._process.wait(1.0))
        return "unknown"

    def _handshake(self) -> dict[str, Any]:
        message = self._receive(self._limits.hello)
        hello = message.get("hello")
        if not isinstance(hello, dict) or not isinstance(hello.get("version"), str):
            raise _Broken("hello was not answered with a name and a version")
        return hello

    def _collect(self, scenario: Scenario, steps: list[dict[str, Any]]) -> Play:
        deadline = time.monotonic() + self._limits.line * 10
        native: list[Any] = []
        while True:
            if time.monotonic() > deadline:
                raise _Broken(f"the scenario took longer than {self._limits.line * 10:g} s")
            message = self._receive(self._limits.line)
            if "step" in message:
                steps.append(message["step"])
                if self._keep_native:
                    native.append(_native(message))
                continue
            if "end" not in message:
                raise _Broken("a line that is neither a step nor an end")
            raw = message["end"]
            if scenario.level == "schedule" and isinstance(raw, dict):
                raw = {**raw, "steps": steps}
            try:
                observation = decode(scenario.level, raw)
            except msgspec.ValidationError as error:
                raise _Broken(f"an observation that does not fit the schema: {error}") from None
            seconds = message.get("seconds", 0.0)
            spent = float(seconds) if isinstance(seconds, int | float) else 0.0
            return Play(observation, None, spent, native=tuple(native))


def _native(message: dict[str, Any]) -> Any:
    if "native" not in message:
        raise _Broken("a step without the native output that was asked for")
    return message["native"]


def _failure(reason: str, steps: Sequence[dict[str, Any]] = ()) -> Play:
    return Play(None, reason, 0.0, tuple(steps))


def _pump(stream: IO[bytes], lines: queue.Queue[bytes | None]) -> None:
    with contextlib.suppress(ValueError, OSError):  # the stream is closed under the reader when it is killed
        for line in stream:
            lines.put(line)
    lines.put(None)


def _keep(stream: IO[bytes], errors: deque[str]) -> None:
    with contextlib.suppress(ValueError, OSError):
        for line in stream:
            errors.append(line.decode("utf-8", "replace").rstrip())

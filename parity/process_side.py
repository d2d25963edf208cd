"""A side in a process of its own, spoken to in JSON lines (docs/protocol.md).

Every wait is bounded. A process that dies, stays silent past its time or breaks the protocol is killed with
its whole group and started again once in a run, with the handshake and the scenario played again; if that fails as
well, the scenario's play is a failure with the steps so far, and so are all that follow.

What breaks the protocol: a line that is no JSON object, the seq of nothing that was asked or of what has been answered
already, half a line, a line that nobody asked for, an answer that does not fit its schema or lacks what the subject claims to show.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parity.errors import InconclusiveError, OracleError
from parity.line_process import Broken, LineProcess, Silence
from parity.observation import Observation, decode
from parity.protocol import Greeting, Hello, Run, Stop
from parity.scenario import Scenario
from parity.side import Play
from parity.subjects.adapter import Adapter

STOP_SECONDS = 5.0
LAST_LOOK_SECONDS = 0.25  # after the last end, for a line that nobody asked for
SHOWN = 80  # bytes of a line, in a message


class _Refused(Exception):
    """The driver could not play the scenario and said so; the process is sound and goes on."""


class Limits(msgspec.Struct, frozen=True):
    """How long to wait, in seconds: for the first hello (imports included), between two lines, and for a scenario."""

    hello: float = 180.0
    line: float = 60.0
    scenario: float = 600.0


class ProcessSide:
    """Runs `command` in `folder` and plays scenarios on it. With `keep_native` a play has the steps' native output.

    `adapter` is what a subject's file says of its process; the oracle's driver has none. `news` is told, in a line, of
    a restart. Raises OracleError when the process cannot be started or does not answer `hello` properly.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        limits: Limits | None = None,
        keep_native: bool = False,
        adapter: Adapter | None = None,
        news: Callable[[str], None] | None = None,
    ) -> None:
        self._name = name
        self._news = news
        self._keep_native = keep_native
        self._command = list(command)
        self._folder = folder
        self._environment = dict(environment)
        self._limits = limits or Limits()
        self._adapter = adapter
        self._restarts_left = 1
        self._seq = 0
        self._scenario: Scenario | None = None
        self._is_busy = False  # an answer of the process's is not there yet
        self._has_played = False  # since the last look behind its answers
        self._hello: dict[str, Any] = {}  # of the process that is up
        self._process: LineProcess | None = None
        self._start()

    @property
    def name(self) -> str:
        return self._name

    @property
    def process(self) -> LineProcess | None:
        """The process that is up."""
        return self._process

    def hello(self) -> dict[str, Any]:
        """What the process said of itself. The first call waits for the handshake.

        Raises OracleError where it does not start, InconclusiveError where it does not confirm what its subject's file claims.
        """
        if not self._hello:
            try:
                self._hello = self._handshake()
            except (Broken, _Refused) as error:
                self._kill()
                raise OracleError(f"{self._name} did not start: {error}", hint=self._mend()) from None
            except InconclusiveError:
                self._kill()
                raise
        return self._hello

    def begin(self, scenario: Scenario) -> None:
        self.hello()
        self._scenario = scenario
        self._ask(scenario)

    def finish(self) -> Play:
        scenario = self._scenario
        assert scenario is not None, "finish() without begin()"
        self._scenario = None
        self._has_played = True
        failures: list[str] = []
        steps: list[dict[str, Any]] = []
        while self._process is not None:
            played: list[dict[str, Any]] = []
            try:
                if not self._hello:
                    self._hello = self._handshake()
                    self._ask(scenario)
                return self._collect(scenario, played)
            except _Refused as refusal:
                return _failure(str(refusal), played)
            except (Broken, InconclusiveError) as error:
                failures.append(str(error))
            steps = played or steps
            self._restart(failures[-1])
        if not failures:
            return _failure(f"{self._name} failed twice in this run and was not started a third time")
        before = f" (also after a restart; before it: {failures[0]})" if len(failures) > 1 else ""
        return _failure(failures[-1] + before, steps)

    def lost(self) -> str | None:
        """What the process did after its last end, unasked; null where nothing. It is ended for it, and told once.

        Where nothing was played since it was asked before, nothing else will tell, and it waits for a moment.
        """
        if self._process is None or not self._hello or self._scenario is not None:
            return None
        wait, self._has_played = (0.0 if self._has_played else LAST_LOOK_SECONDS), False
        try:
            line = self._process.receive(wait)
        except Silence:
            return None
        except Broken as error:
            told = str(error)
        else:
            told = f"a line that nobody asked for, after its last end: {line[:SHOWN]!r}"
        self._restart(told)
        return f"{self._name}: {told}"

    def close(self) -> None:
        if self._process is not None and not self._is_busy:  # else it would first end what nobody waits for
            self._seq += 1
            self._process.send(msgspec.json.encode(Stop(self._seq)))
            self._process.hang_up()
            self._process.wait(STOP_SECONDS)
        self._kill()

    # -- the process ----------------------------------------------------------------------------------

    def _start(self) -> None:
        self._hello = {}
        try:
            self._process = LineProcess(self._command, self._folder, self._environment)
        except OSError as error:
            raise OracleError(
                f"{self._name} cannot be started: {error.strerror}: {self._command[0]}",
                hint="run `make setup`"
                if self._adapter is None
                else "correct door.process in its subject's file",
            ) from None
        self._seq += 1
        self._is_busy = True
        self._process.send(msgspec.json.encode(Hello(self._seq)))

    def _restart(self, why: str) -> None:
        """End the process; another one is there afterwards unless that was the second."""
        self._kill()
        if self._restarts_left:
            self._restarts_left -= 1
            if self._news is not None:
                self._news(f"{self._name}: {why}; starting it again …")
            with contextlib.suppress(OracleError):  # a command that is gone by now: there is no process then
                self._start()

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def _mend(self) -> str:
        if self._adapter is None:
            return "run `parity oracle verify`"
        return f"run `parity smoke {self._adapter.loaded.path}`"

    # -- the protocol ---------------------------------------------------------------------------------

    def _ask(self, scenario: Scenario) -> None:
        if self._process is not None:
            self._seq += 1
            line = (
                Run(self._seq, scenario)
                if self._adapter is None
                else self._adapter.asked(self._seq, scenario)
            )
            self._is_busy = True
            self._process.send(msgspec.json.encode(line))

    def _receive(self, seconds: float) -> dict[str, Any]:
        if self._process is None:
            raise Broken("the process is gone")
        line = self._process.receive(seconds)
        try:
            message = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Broken(f"a line that is not JSON: {line[:SHOWN]!r}{self._process.tail()}") from None
        if not isinstance(message, dict):
            raise Broken(f"a line that is no JSON object: {line[:SHOWN]!r}")
        self._check_turn(message.get("seq"), line)
        self._is_busy = "step" in message
        if "error" in message:
            error = message["error"]
            text = error.get("message") if isinstance(error, dict) else error
            who = "the driver failed" if self._adapter is None else "it answered with an error"
            raise _Refused(f"{who}: {text}")
        return message

    def _check_turn(self, seq: Any, line: bytes) -> None:
        if type(seq) is int and seq == self._seq:
            return
        what = "a line out of turn"
        if type(seq) is int and 0 < seq < self._seq:
            what = f"another line for seq {seq}, which was answered"
        raise Broken(f"{what} (seq {self._seq} was asked): {line[:SHOWN]!r}")

    def _handshake(self) -> dict[str, Any]:
        message = self._receive(self._limits.hello)
        hello = message.get("hello")
        try:
            greeting = msgspec.convert(hello, Greeting)
        except msgspec.ValidationError as error:
            raise Broken(f"hello was not answered with a name and a version: {error}") from None
        if self._adapter is not None:
            self._adapter.check(greeting)
        assert isinstance(hello, dict)
        return hello

    def _collect(self, scenario: Scenario, steps: list[dict[str, Any]]) -> Play:
        deadline = time.monotonic() + self._limits.scenario
        native: list[Any] = []
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise Broken(f"the scenario took longer than {self._limits.scenario:g} s")
            try:
                message = self._receive(min(self._limits.line, left))
            except Silence:
                if left < self._limits.line:
                    continue
                raise
            if "step" not in message:
                break
            steps.append(message["step"])
            if self._keep_native:
                native.append(_native(message))
            if scenario.timeline is not None and len(steps) > scenario.timeline.max_steps:
                raise Broken(f"more than the {scenario.timeline.max_steps} steps that were asked for")
        if "end" not in message:
            raise Broken("a line that is neither a step nor an end")
        return Play(
            self._observed(scenario, message["end"], steps), None, _seconds(message), native=tuple(native)
        )

    def _observed(self, scenario: Scenario, raw: Any, steps: list[dict[str, Any]]) -> Observation:
        if scenario.level == "schedule" and isinstance(raw, dict):
            raw = {**raw, "steps": steps}
        elif steps:
            raise Broken("steps of a plan, which has none")
        if self._adapter is not None:
            raw = self._adapter.complete(scenario.level, raw)
        try:
            return decode(scenario.level, raw)
        except msgspec.ValidationError as error:
            raise Broken(f"an observation that does not fit the schema: {error}") from None


def _seconds(message: dict[str, Any]) -> float:
    seconds = message.get("seconds", 0.0)
    return float(seconds) if isinstance(seconds, int | float) else 0.0


def _native(message: dict[str, Any]) -> Any:
    if "native" not in message:
        raise Broken("a step without the native output that was asked for")
    return message["native"]


def _failure(reason: str, steps: Sequence[dict[str, Any]] = ()) -> Play:
    return Play(None, reason, 0.0, tuple(steps))

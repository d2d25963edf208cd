"""The loop of docs/protocol.md: one request a line in, answers a line each out, in order.

It knows nothing of upstream: a Side answers. Whatever a side raises becomes an error line and the loop
goes on, so that one bad scenario does not cost the import of the next.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol

import msgspec

from oracle.driver.errors import BadRequest, DriverError, Fault
from oracle.driver.wire import Hello, Plan, Scenario, ScheduleEnd, Step, read_scenario


class Emit(Protocol):
    """Takes a step as it happened, and the side's own output of it where that was asked for."""

    def __call__(self, step: Step, native: dict[str, Any] | None = None) -> None: ...


class Side(Protocol):
    """Who answers. May raise Fault; any other exception is the driver's own failure."""

    def hello(self) -> Hello: ...

    def run(self, scenario: Scenario, emit: Emit) -> Plan | ScheduleEnd:
        """Plays `scenario`, gives each step to `emit` as it happens and returns what ends it."""
        ...


def serve(source: BinaryIO, sink: BinaryIO, side: Side) -> None:
    """Answers `source` line by line until it ends or asks to stop. Raises BrokenPipeError."""

    def write(seq: Any, **body: Any) -> None:
        sink.write(msgspec.json.encode({"seq": seq, **body}) + b"\n")
        sink.flush()

    for line in source:
        seq: Any = None
        try:
            request = _read(line)
            seq = request.get("seq")
            if not _answer(request, side, lambda seq=seq, **body: write(seq, **body)):
                return
        except BrokenPipeError:
            raise
        except Fault as fault:
            write(seq, error={"kind": fault.kind, "message": _one_line(fault)})
        except Exception as error:  # noqa: BLE001 -- a failed scenario must not cost the next one
            traceback.print_exc()
            write(seq, error={"kind": DriverError.kind, "message": _one_line(error)})


def _read(line: bytes) -> dict[str, Any]:
    try:
        request = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"not a JSON line: {error}") from error
    if not isinstance(request, dict):
        raise BadRequest(f"not a JSON object but {type(request).__name__}")
    return request


def _answer(request: dict[str, Any], side: Side, write: Callable[..., None]) -> bool:
    """Answers one request; False when it was the last one."""
    match request.get("op"):
        case "hello":
            write(hello=side.hello())
        case "run":
            scenario = read_scenario(request.get("scenario"))
            started = time.perf_counter()

            def emit(step: Step, native: dict[str, Any] | None = None) -> None:
                write(step=step) if native is None else write(step=step, native=native)

            end = side.run(scenario, emit)
            write(end=end, seconds=round(time.perf_counter() - started, 6))
        case "stop":
            write(stopped=True)
            return False
        case unknown:
            raise BadRequest(f"unknown op {unknown!r}: it is one of hello, run, stop")
    return True


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, Fault) else f"{type(error).__name__}: {text}"

"""The oracle as a side: upstream at the pin, measured first, in its own interpreter and environment."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

from oracle.errors import OracleFault
from oracle.install import oracle_environment, oracle_python
from oracle.pins import Pin, load_pin
from oracle.verify import Measured, measure
from parity.errors import InconclusiveError, OracleError, UsageError
from parity.process_side import Limits, ProcessSide


@contextmanager
def oracle_faults() -> Iterator[None]:
    """Turn the oracle's own faults into the harness's OracleError, with the evidence on stderr."""
    try:
        yield
    except OracleFault as fault:
        if fault.detail:
            print(fault.detail, file=sys.stderr)
        raise OracleError(fault.message, hint=fault.hint) from fault
    except OSError as error:
        raise OracleError(
            f"{error.filename or 'a file of the oracle'}: {error.strerror}",
            hint="free some space or correct the permissions, then try again",
        ) from error


def find_pin(root: Path, name: str | None) -> Pin:
    """The pin called `name` (default: the default pin). Raises UsageError for one that is not there."""
    try:
        return load_pin(root, name)
    except OracleFault as fault:
        raise UsageError(fault.message, hint=fault.hint) from None


def measure_oracle(root: Path, pin: Pin) -> Measured:
    """What the installed reference is, as measured. Raises OracleError unless it is the pin."""
    with oracle_faults():
        return measure(root, pin)


class Way(msgspec.Struct, frozen=True):
    """How the driver plays (docs/protocol.md): through which door of upstream's, and whether its steps carry native output.

    `scheduler` is a class in the place of upstream's own, found on `path` too: then it is a subject that plays.
    """

    door: Literal["scheduler", "core"] = "scheduler"
    debug: bool = False
    scheduler: str | None = None
    path: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        if self.scheduler is not None:
            return self.scheduler
        return "oracle" if self.door == "scheduler" else f"oracle's {self.door}"

    @property
    def options(self) -> list[str]:
        door = [] if self.door == "scheduler" else ["--door", self.door]
        chosen = [] if self.scheduler is None else ["--scheduler-cls", self.scheduler]
        chosen += [part for folder in self.path for part in ("--path", folder)]
        return [*door, *(["--debug"] if self.debug else []), *chosen]


class SchedulerSide(ProcessSide):
    """The driver with a class in the place of upstream's scheduler: whatever keeps it from starting is the class's."""

    def hello(self) -> dict[str, Any]:
        try:
            return super().hello()
        except OracleError as error:
            raise OracleError(
                error.message, hint="correct the class, or door.scheduler-cls in its subject's file"
            ) from None


def start_oracle(
    root: Path,
    pin: Pin,
    limits: Limits | None = None,
    way: Way | None = None,
    news: Callable[[str], None] | None = None,
) -> ProcessSide:
    """Start the driver; its imports (about 8 s) go on while the caller does other work until `hello`.

    `news` is told, in a line, of a restart.
    """
    way = way or Way()
    with oracle_faults():
        python = oracle_python(root, pin)
        environment = oracle_environment(root, pin)
    command = [str(python), "-m", "oracle.driver", *way.options]
    side = ProcessSide if way.scheduler is None else SchedulerSide
    return side(way.name, command, root, environment, limits, keep_native=way.debug, news=news)


def greet(driver: ProcessSide, measured: Measured) -> dict[str, Any]:
    """What the driver says of itself, once it has started. Raises OracleError, InconclusiveError for another version."""
    hello = driver.hello()
    if hello["version"] != measured.version:
        raise InconclusiveError(
            f"the driver reports vLLM {hello['version']}, and {measured.version} was measured",
            hint="run `parity oracle verify`",
        )
    return hello

"""Both sides of every level, started when the first scenario needs them and ended with the run.

Levels plan and schedule are played by the oracle's driver in its own process and by the engine in this one; level
serve by servers of both, which launchers describe.
"""

from __future__ import annotations

import datetime
import importlib.util
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oracle.interpreter import oracle_environment, oracle_python
from oracle.pins import Pin
from oracle.verify import Measured
from parity.ask import Ask
from parity.engine_side import EngineSide
from parity.errors import InconclusiveError
from parity.oracle_side import oracle_faults, start_oracle
from parity.process_side import ProcessSide
from parity.report.progress import RunProgress
from parity.runfile import FOLDER
from parity.scenario import Case, ServeScenario
from parity.serve.launcher import Launcher, load_launcher, shipped
from parity.serve.side import ServeSide, Setup, Times
from parity.side import Side

MODELS = ".models"
Pair = tuple[Side[Any], Side[Any]]


class Sides:
    """The sides of one run. `close` ends every process that was started."""

    def __init__(self, ask: Ask, pin: Pin, measured: Measured, progress: RunProgress) -> None:
        self._ask = ask
        self._pin = pin
        self._measured = measured
        self._progress = progress
        self._driver: ProcessSide | None = None
        self._engines: dict[tuple[tuple[str, str], ...], EngineSide] = {}
        self._reference: ServeSide | None = None
        self._server: tuple[dict[str, str], ServeSide] | None = None
        self.hello: dict[str, Any] = {}
        self.start_seconds = 0.0
        self.times = {"oracle": Times(), "subject": Times()}
        self._logs: Path | None = None

    @property
    def logs(self) -> Path | None:
        """Where the servers' logs are; null before the first start."""
        return self._logs

    def pair(self, case: Case, policies: Mapping[str, str]) -> Pair:
        """The oracle and the subject under `policies` for this case's level."""
        chosen = dict(policies)
        if isinstance(case.scenario, ServeScenario):
            return self._serving(chosen)
        engine = self._engines.setdefault(tuple(sorted(chosen.items())), EngineSide(chosen))
        return self._playing(), engine

    def close(self) -> None:
        for side in (self._driver, self._reference, self._server and self._server[1]):
            if side is not None:
                side.close()

    def _playing(self) -> ProcessSide:
        """The oracle's driver, ready to play. Raises OracleError, InconclusiveError."""
        if self._driver is not None:
            return self._driver
        began = time.perf_counter()
        self._driver = start_oracle(self._ask.root, self._pin)
        with self._progress.starting(f"starting vLLM {self._measured.version}"):
            self.hello = self._driver.hello()
        if self.hello["version"] != self._measured.version:
            raise InconclusiveError(
                f"the driver reports vLLM {self.hello['version']}, and {self._measured.version} was measured",
                hint="run `parity oracle verify`",
            )
        self.start_seconds = time.perf_counter() - began
        return self._driver

    def _serving(self, policies: dict[str, str]) -> Pair:
        if self._reference is None:
            check_models(self._ask.root)
            self._reference = self._upstream()
        if self._server is not None and self._server[0] != policies:
            self._server[1].close()
            self._server = None
        if self._server is None:
            self._server = policies, self._subject(policies)
        return self._reference, self._server[1]

    def _upstream(self) -> ServeSide:
        root = self._ask.root
        with oracle_faults():
            python, environment = oracle_python(root, self._pin), oracle_environment(root, self._pin)
        setup = self._setup(load_launcher(shipped("vllm")), str(python), environment)
        return ServeSide("vllm", setup, self._progress.note, self.times["oracle"])

    def _subject(self, policies: Mapping[str, str]) -> ServeSide:
        launcher = load_launcher(self._ask.launcher or shipped("nullblock"))
        choices = tuple(f"{name}={value}" for name, value in policies.items())
        setup = self._setup(launcher.under(choices), sys.executable, dict(os.environ))
        return ServeSide(launcher.name, setup, self._progress.note, self.times["subject"])

    def _setup(self, launcher: Launcher, python: str, environment: Mapping[str, str]) -> Setup:
        root = self._ask.root
        if self._logs is None:
            stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S.%f")
            self._logs = root / FOLDER / "logs" / f"{stamp}-{os.getpid()}"
            self._logs.mkdir(parents=True, exist_ok=True)
        return Setup(launcher, python, environment, root, root / MODELS, self._logs)


def check_models(root: Path) -> None:
    """Whether this checkout can serve at all. Raises InconclusiveError that says what is missing."""
    if importlib.util.find_spec("torch") is None or not (root / MODELS).is_dir():
        raise InconclusiveError(
            "level serve needs torch and the small models, and they are not here",
            hint="run `make model`, or play the levels plan and schedule with `parity check --quick`",
        )

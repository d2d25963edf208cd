"""Both sides of every level, started when the first scenario needs them and ended with the run.

Levels plan and schedule are played by the oracle's driver in its own process and by the engine in this one; level
serve by servers of both, which launchers describe.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from oracle.interpreter import oracle_environment, oracle_python
from oracle.pins import Pin
from oracle.verify import Measured
from parity.ask import Ask
from parity.engine_side import EngineSide
from parity.errors import InconclusiveError, RunFileError, UsageError
from parity.interrupts import uninterrupted
from parity.oracle_side import Way, greet, oracle_faults, start_oracle
from parity.process_side import ProcessSide
from parity.report.progress import RunProgress
from parity.runfile import FOLDER, stamp
from parity.runlog import Launched
from parity.scenario import Case, ServeScenario
from parity.serve.launcher import Launcher, digest, load_launcher, shipped
from parity.serve.side import ServeSide, Setup, Times, encoded
from parity.side import Side

MODELS = ".models"
Asked = tuple[Case, Mapping[str, str]]  # a case, and the choices of the engine that it is played under
Pair = tuple[Side[Any], Side[Any]]


class Sides:
    """The sides of one run. `prepare` first; `close` ends every process that was started.

    `server` is the subject of level serve where it is not the engine's own.
    """

    def __init__(self, ask: Ask, pin: Pin, measured: Measured, progress: RunProgress) -> None:
        self._ask = ask
        self._pin = pin
        self._measured = measured
        self._progress = progress
        self._driver: ProcessSide | None = None
        self._engines: dict[tuple[tuple[str, str], ...], EngineSide] = {}
        self._reference: ServeSide | None = None
        self._server: tuple[dict[str, str], ServeSide] | None = None
        self._launcher: Launcher | None = None
        self.server: Launched | None = None
        self.hello: dict[str, Any] = {}
        self.start_seconds = 0.0
        self.times = {"oracle": Times(), "subject": Times()}
        self._logs = ask.root / FOLDER / "logs" / stamp()

    @property
    def logs(self) -> Path | None:
        """Where the servers' logs are; null where no server is asked for."""
        return None if self._reference is None else self._logs

    def prepare(self, plays: Sequence[Asked]) -> None:
        """Get ready for these; whatever a user can mend is found here, while nothing is lost by it.

        Raises UsageError for a launcher or a configuration that cannot be had, InconclusiveError for what is missing
        here, OracleError where the oracle's process does not start.
        """
        served = [
            (case.scenario, policies) for case, policies in plays if isinstance(case.scenario, ServeScenario)
        ]
        if self._ask.launcher is not None:
            self.server = self._foreign(self._ask.launcher)
            if not served:
                raise UsageError(
                    "--server is for level serve, and none of its scenarios is to be played",
                    hint="leave --server out, or play such scenarios: `parity run --family serving`",
                )
        if served:
            self._prepare_servers(served)
        if len(served) < len(plays):
            self._playing()

    def _prepare_servers(self, served: Sequence[tuple[ServeScenario, Mapping[str, str]]]) -> None:
        check_models(self._ask.root)
        configs = {encoded(scenario.config): scenario.config for scenario, _ in served}
        reference = self._upstream()
        reference.check(configs.values())
        for policies in {tuple(policies.items()): dict(policies) for _, policies in served}.values():
            self._subject(policies).check(configs.values())
        try:
            self._logs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunFileError(
                f"the servers' logs cannot be kept in {self._logs}: {error.strerror}",
                hint=f"let {self._ask.root / FOLDER} be a folder that can be written, with room",
            ) from None
        self._reference = reference

    def _foreign(self, path: Path) -> Launched | None:
        """The server of that launcher; null where it is the engine's own, in its own file or a copy."""
        self._launcher = load_launcher(path)
        found = digest(path)
        return None if found == digest(shipped("nullblock")) else Launched(self._launcher.name, found)

    def pair(self, case: Case, policies: Mapping[str, str]) -> Pair:
        """The oracle and the subject under `policies` for this case's level."""
        chosen = dict(policies)
        if isinstance(case.scenario, ServeScenario):
            return self._serving(chosen)
        engine = self._engines.setdefault(tuple(sorted(chosen.items())), EngineSide(chosen))
        return self._playing(), engine

    def lost(self) -> tuple[str | None, str | None]:
        """How a server of the oracle, and of the subject, ended after its last script, unasked; null where none did."""
        sides = (self._reference, self._server and self._server[1])
        oracle, subject = (None if side is None else side.lost() for side in sides)
        return oracle, subject

    def close(self) -> None:
        servers = [side for side in (self._server and self._server[1], self._reference) if side is not None]
        if self._driver is None and not servers:
            return
        with uninterrupted(), self._progress.ending("ending both sides"), ExitStack() as stack:
            for server in servers:
                server.call_off()
                stack.callback(server.close)
            if self._driver is not None:
                stack.callback(self._driver.close)

    def _playing(self) -> ProcessSide:
        """The oracle's driver, ready to play. Raises OracleError, InconclusiveError."""
        if self._driver is not None:
            return self._driver
        began = time.perf_counter()
        self._driver = start_oracle(
            self._ask.root, self._pin, None, Way(debug=self._ask.debug), self._progress.news
        )
        with self._progress.starting(f"starting vLLM {self._measured.version}"):
            self.hello = greet(self._driver, self._measured)
        self.start_seconds = time.perf_counter() - began
        return self._driver

    def _serving(self, policies: dict[str, str]) -> Pair:
        assert self._reference is not None, "a script without `prepare`"
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
        return ServeSide("oracle", setup, self._progress.server, self.times["oracle"])

    def _subject(self, policies: Mapping[str, str]) -> ServeSide:
        launcher = self._launcher or load_launcher(shipped("nullblock"))
        choices = tuple(f"{name}={value}" for name, value in policies.items())
        setup = self._setup(launcher.under(choices), sys.executable, dict(os.environ))
        return ServeSide("subject", setup, self._progress.server, self.times["subject"])

    def _setup(self, launcher: Launcher, python: str, environment: Mapping[str, str]) -> Setup:
        root = self._ask.root
        return Setup(launcher, python, environment, root, root / MODELS, self._logs)


def check_models(root: Path) -> None:
    """Whether this checkout can serve at all. Raises InconclusiveError that says what is missing."""
    if importlib.util.find_spec("torch") is None or not (root / MODELS).is_dir():
        raise InconclusiveError(
            "level serve needs torch and the small models, and they are not here",
            hint="run `make model`, or play the levels plan and schedule with `parity check --quick`",
        )

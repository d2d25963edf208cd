"""Who plays in a run: the oracle, and a subject through its doors. Each starts what it needs when it is needed.

A player has a side for each level that it is asked for: `begin` starts its process, `prepare` finds everything that a user can mend while
nothing is lost by it, `side` hands a side out, and `close` ends every process that was started.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from oracle.interpreter import oracle_environment, oracle_python
from oracle.pins import Pin
from oracle.verify import Measured
from parity.engine_side import EngineSide
from parity.errors import InconclusiveError, RunFileError, UsageError
from parity.oracle_side import Way, greet, oracle_faults, start_oracle
from parity.process_side import Limits, ProcessSide
from parity.report.progress import RunProgress
from parity.runfile import FOLDER
from parity.scenario import Case, ServerConfig, ServeScenario
from parity.serve.http import HttpSide
from parity.serve.launcher import Launcher, load_launcher, shipped
from parity.serve.side import ServeSide, Setup, Times, encoded
from parity.serve.watch import WHOLE, Sight
from parity.side import Side
from parity.subjects.adapter import Adapter
from parity.subjects.doors import ProcessDoor
from parity.subjects.fields import unobserved
from parity.subjects.subject import Loaded, Subject

MODELS = ".models"
PYTHON = "{python}"
Role = Literal["oracle", "subject"]
Asked = tuple[Case, Mapping[str, str]]  # a case, and the choices of the engine that it is played under
Choices = tuple[tuple[str, str], ...]


class Stage(msgspec.Struct, frozen=True):
    """What the players of one run share. `logs` is where their servers write."""

    root: Path
    logs: Path
    progress: RunProgress
    debug: bool = False


class Player(Protocol):
    """One of the two whose answers are held against each other."""

    times: Times
    start_seconds: float  # what its first start took, its servers' apart

    @property
    def hello(self) -> Mapping[str, Any]:
        """What its process said of itself; empty where it has none, or none was started."""

    def begin(self, plays: Sequence[Asked]) -> None:
        """Start the process that these need, if any, and do not wait for it. Raises OracleError where it cannot be."""

    def prepare(self, plays: Sequence[Asked]) -> None:
        """Get ready for these. Raises UsageError, InconclusiveError."""

    def side(self, case: Case, policies: Mapping[str, str]) -> Side[Any]:
        """Its side for this case."""

    def lost(self) -> str | None:
        """How a process of its ended after its last scenario, unasked; null where none did."""

    def call_off(self) -> None:
        """Begin to close, and do not wait."""

    def close(self) -> None: ...


class Servers:
    """The servers of one player, for level serve: those of one launcher, under one choice of policies at a time."""

    def __init__(
        self,
        role: Role,
        stage: Stage,
        launcher: Launcher,
        python: str,
        environment: Mapping[str, str],
        folder: Path,
        sight: Sight,
    ) -> None:
        self._role = role
        self._stage = stage
        self._launcher = launcher
        self._python = python
        self._environment = environment
        self._folder = folder
        self._sight = sight
        self._side: tuple[Choices, ServeSide] | None = None
        self.times = Times()

    def prepare(self, plays: Iterable[tuple[ServerConfig, Mapping[str, str]]]) -> None:
        wanted: dict[Choices, dict[bytes, ServerConfig]] = {}
        for config, policies in plays:
            wanted.setdefault(_choices(policies), {})[encoded(config)] = config
        for choices, configs in wanted.items():
            self._made(choices).check(configs.values())
        try:
            self._stage.logs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunFileError(
                f"the servers' logs cannot be kept in {self._stage.logs}: {error.strerror}",
                hint=f"let {self._stage.root / FOLDER} be a folder that can be written, with room",
            ) from None

    def side(self, policies: Mapping[str, str]) -> ServeSide:
        choices = _choices(policies)
        if self._side is not None and self._side[0] != choices:
            self._side[1].close()
            self._side = None
        if self._side is None:
            self._side = choices, self._made(choices)
        return self._side[1]

    def lost(self) -> str | None:
        return None if self._side is None else self._side[1].lost()

    def call_off(self) -> None:
        if self._side is not None:
            self._side[1].call_off()

    def close(self) -> None:
        if self._side is not None:
            self._side[1].close()

    def _made(self, choices: Choices) -> ServeSide:
        launcher = self._launcher.under([f"{name}={value}" for name, value in choices])
        stage = self._stage
        setup = Setup(
            launcher,
            self._python,
            self._environment,
            self._folder,
            stage.root / MODELS,
            stage.logs,
            self._sight,
        )
        return ServeSide(self._role, setup, stage.progress.server, self.times)


class OraclePlayer:
    """Upstream at the pin: its driver, and its server."""

    def __init__(self, stage: Stage, pin: Pin, measured: Measured) -> None:
        self._stage = stage
        self._pin = pin
        self._measured = measured
        self._driver: ProcessSide | None = None
        self._servers: Servers | None = None
        self._began = 0.0
        self.hello: Mapping[str, Any] = {}
        self.start_seconds = 0.0
        self.times = Times()

    def begin(self, plays: Sequence[Asked]) -> None:
        if self._driver is None and len(_served(plays)) < len(plays):
            self._began = time.perf_counter()
            self._driver = start_oracle(
                self._stage.root, self._pin, None, Way(debug=self._stage.debug), self._stage.progress.news
            )

    def prepare(self, plays: Sequence[Asked]) -> None:
        served = _served(plays)
        if served:
            root = self._stage.root
            check_models(root)
            python, environment = _upstream(root, self._pin)
            launcher = load_launcher(shipped("vllm"))
            self._servers = Servers("oracle", self._stage, launcher, python, environment, root, WHOLE)
            self.times = self._servers.times
            self._servers.prepare((config, {}) for config, _ in served)
        if len(served) < len(plays) and not self.hello:
            assert self._driver is not None, "`prepare` without `begin`"
            with self._stage.progress.starting(f"starting vLLM {self._measured.version}"):
                self.hello = greet(self._driver, self._measured)
            self.start_seconds = time.perf_counter() - self._began

    def side(self, case: Case, policies: Mapping[str, str]) -> Side[Any]:
        del policies  # they are the subject's
        if case.scenario.level == "serve":
            assert self._servers is not None, "a script without `prepare`"
            return self._servers.side({})
        assert self._driver is not None, "a timeline without `begin`"
        return self._driver

    def lost(self) -> str | None:
        return None if self._servers is None else self._servers.lost()

    def call_off(self) -> None:
        if self._servers is not None:
            self._servers.call_off()

    def close(self) -> None:
        if self._servers is not None:
            self._servers.close()
        if self._driver is not None:
            self._driver.close()


class SubjectPlayer:
    """A subject through its doors. Only the engine in process and a launcher with `policy` can be asked for policies."""

    def __init__(self, role: Role, stage: Stage, loaded: Loaded, pin: Pin) -> None:
        self._role = role
        self._stage = stage
        self._loaded = loaded
        self._pin = pin
        self._engines: dict[Choices, EngineSide] = {}
        self._process: ProcessSide | None = None
        self._servers: Servers | None = None
        self._http: HttpSide | None = None
        self._began = 0.0
        self.hello: Mapping[str, Any] = {}
        self.start_seconds = 0.0
        self.times = Times()

    def begin(self, plays: Sequence[Asked]) -> None:
        stepped = [policies for case, policies in plays if case.scenario.level != "serve"]
        if not stepped or self._loaded.subject.door.inprocess or self._process is not None:
            return
        if any(stepped):
            raise UsageError(
                f"subject {self._loaded.subject.name} has no policies at the levels plan and schedule",
                hint="leave --policy out",
            )
        self._began = time.perf_counter()
        self._process = self._opened()

    def prepare(self, plays: Sequence[Asked]) -> None:
        served = _served(plays)
        door = self._loaded.subject.door
        if self._process is not None and not self.hello:
            with self._stage.progress.starting(f"starting {self._loaded.subject.name}"):
                self.hello = self._process.hello()
            self.start_seconds = time.perf_counter() - self._began
        if served and door.http is not None:
            if any(policies for _, policies in served):
                raise UsageError(
                    f"subject {self._loaded.subject.name} runs already, and takes no policy",
                    hint="leave --policy out",
                )
            http = door.http
            self._http = HttpSide(
                self._role, http.url, http.started, _sight(self._loaded.subject), self._stage.root / MODELS
            )
            self._http.check()
        elif served:
            self._servers = self._launched()
            self.times = self._servers.times
            self._servers.prepare(served)

    def side(self, case: Case, policies: Mapping[str, str]) -> Side[Any]:
        if case.scenario.level == "serve":
            if self._http is not None:
                return self._http
            assert self._servers is not None, "a script without `prepare`"
            return self._servers.side(policies)
        if self._loaded.subject.door.inprocess:
            return self._engines.setdefault(_choices(policies), EngineSide(dict(policies)))
        assert self._process is not None, "a timeline without `begin`"
        return self._process

    def lost(self) -> str | None:
        sides = (self._servers, self._process)
        return next((text for side in sides if side is not None and (text := side.lost())), None)

    def call_off(self) -> None:
        for side in (self._servers, self._http):
            if side is not None:
                side.call_off()

    def close(self) -> None:
        for side in (self._servers, self._process, self._http):
            if side is not None:
                side.close()

    def _launched(self) -> Servers:
        loaded, stage = self._loaded, self._stage
        door = loaded.subject.door.serve
        assert door is not None, "level serve without a door"
        check_models(stage.root)
        python, environment = sys.executable, dict(os.environ)
        if door.python == "oracle":
            python, environment = _upstream(stage.root, self._pin)
        launcher = door.launcher(loaded.subject.name)
        return Servers(
            self._role, stage, launcher, python, environment, loaded.folder, _sight(loaded.subject)
        )

    def _opened(self) -> ProcessSide:
        """The process behind the subject's door, started."""
        subject = self._loaded.subject
        door = subject.door
        if door.scheduler_cls is not None:
            path = [self._loaded.path.parent / folder for folder in door.scheduler_cls.path]
            way = Way(
                scheduler=door.scheduler_cls.class_, path=tuple(str(folder.resolve()) for folder in path)
            )
            return start_oracle(self._stage.root, self._pin, None, way, self._stage.progress.news)
        assert door.process is not None, "levels plan and schedule without a door"
        return open_process(self._loaded, door.process, self._stage.progress.news)


def open_process(loaded: Loaded, door: ProcessDoor, news: Callable[[str], None] | None = None) -> ProcessSide:
    """The process of a subject, started. Raises OracleError where it cannot be."""
    return ProcessSide(
        loaded.subject.name,
        [part.replace(PYTHON, sys.executable) for part in door.command],
        loaded.folder,
        {**os.environ, **door.environment},
        Limits(hello=door.handshake, line=door.step, scenario=door.scenario),
        adapter=Adapter(loaded),
        news=news,
    )


def check_models(root: Path) -> None:
    """Whether this checkout can serve at all. Raises InconclusiveError that says what is missing."""
    if importlib.util.find_spec("torch") is None or not (root / MODELS).is_dir():
        raise InconclusiveError(
            "level serve needs torch and the small models, and they are not here",
            hint="run `make model`, or play the levels plan and schedule with `parity check --quick`",
        )


def _sight(subject: Subject) -> Sight:
    """Where its server is looked at: only where it has something to show."""
    return Sight(health="health" not in unobserved(subject.observes, "serve"), load="metrics" in subject.can)


def _upstream(root: Path, pin: Pin) -> tuple[str, dict[str, str]]:
    with oracle_faults():
        return str(oracle_python(root, pin)), oracle_environment(root, pin)


def _served(plays: Sequence[Asked]) -> list[tuple[ServerConfig, Mapping[str, str]]]:
    return [
        (case.scenario.config, policies)
        for case, policies in plays
        if isinstance(case.scenario, ServeScenario)
    ]


def _choices(policies: Mapping[str, str]) -> Choices:
    return tuple(sorted(policies.items()))

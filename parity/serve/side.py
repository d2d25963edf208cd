"""A server as a side: started for the configuration that a scenario asks for, and shared while it is fit to be.

A server is used again for the next scenario with the same configuration unless that one asks for a fresh
server, this one got a signal or died, or a client's blocks did not come back. At most one server of a side
is up at any time, and `close` leaves none.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from parity.observation import Serve
from parity.scenario import ServerConfig, ServeScenario
from parity.serve.launcher import Launcher
from parity.serve.player import play
from parity.serve.server import Server, start
from parity.serve.target import PlayFailed
from parity.side import Play

CLOSE_SECONDS = 10.0
MAX_DEATHS = 3  # servers that died by themselves: a subject that always does must not cost an hour of starts


class Setup(msgspec.Struct, frozen=True):
    """How the servers of one side are started."""

    launcher: Launcher
    python: str
    environment: Mapping[str, str]
    root: Path  # working directory
    models: Path  # holds a folder for each model's name
    logs: Path  # gets one log a start


class Times(msgspec.Struct):
    """What the servers of one side have cost so far, in seconds."""

    starts: int = 0
    start_seconds: float = 0.0
    play_seconds: float = 0.0


class ServeSide:
    """Plays scripts on servers of one launcher, one script at a time; `announce` is told of each start."""

    def __init__(
        self, name: str, setup: Setup, announce: Callable[[str], None], times: Times | None = None
    ) -> None:
        self._name = name
        self._setup = setup
        self._announce = announce
        self.times = times or Times()
        self._server: Server | None = None
        self._config: ServerConfig | None = None
        self._used = False
        self._deaths = 0
        self._thread: threading.Thread | None = None
        self._play: Play | None = None
        self._error: BaseException | None = None
        self._stop = threading.Event()

    @property
    def name(self) -> str:
        return self._name

    def begin(self, scenario: ServeScenario) -> None:
        self._play, self._error = None, None
        self._thread = threading.Thread(target=self._work, args=(scenario,), daemon=True)
        self._thread.start()

    def finish(self) -> Play:
        """Wait for the script's end. Every wait within it is bounded, so this one is. Raises what the work raised."""
        assert self._thread is not None, "finish() without begin()"
        self._thread.join()
        self._thread = None
        if self._error is not None:
            raise self._error
        assert self._play is not None, "the work ended without a play"
        return self._play

    def close(self) -> None:
        """End the server, and a start or a script that is under way."""
        self._stop.set()
        self._drop()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)
        self._drop()

    def _work(self, scenario: ServeScenario) -> None:
        try:
            self._play = self._played(scenario)
        except BaseException as error:  # noqa: BLE001 - raised again where somebody waits for this thread
            self._error = error

    def _played(self, scenario: ServeScenario) -> Play:
        began = time.monotonic()
        try:
            server = self._fit(scenario)
            began = time.monotonic()
            observation = asyncio.run(play(scenario, server))
        except PlayFailed as error:
            self._deaths += self._server is not None and not self._server.alive()
            self._drop()
            return Play(None, str(error), time.monotonic() - began)
        seconds = time.monotonic() - began
        self.times.play_seconds += seconds
        if not _fit_for_more(observation):
            self._drop()
        return Play(observation, None, seconds)

    def _fit(self, scenario: ServeScenario) -> Server:
        """A server for this scenario: the one that is up, or a new one. Raises PlayFailed."""
        if self._server is not None:
            same = self._config == scenario.config and not (scenario.fresh and self._used)
            if same and self._server.alive():
                self._used = True
                return self._server
            self._drop()
        if self._deaths >= MAX_DEATHS:
            raise PlayFailed(f"{self._name}: not started again after {self._deaths} servers that died")
        self._server = self._start(scenario.config)
        self._config, self._used = scenario.config, True
        return self._server

    def _start(self, config: ServerConfig) -> Server:
        setup, number = self._setup, self.times.starts + 1
        self.times.starts = number
        self._announce(f"{self._name}: starting server {number} ({describe(config)})")
        began = time.monotonic()
        try:
            return start(
                setup.launcher,
                config,
                name=self._name,
                python=setup.python,
                models=setup.models,
                root=setup.root,
                environment=setup.environment,
                log=setup.logs / f"{number:02d}-{self._name}-{config.model}.log",
                stop=self._stop,
            )
        except PlayFailed:
            self._deaths += 1
            raise
        finally:
            self.times.start_seconds += time.monotonic() - began

    def _drop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()


def describe(config: ServerConfig) -> str:
    """A configuration in a few words, for progress and messages."""
    words = f"{config.model}, {config.num_blocks} blocks of {config.block_size}, max_model_len {config.max_model_len}"
    if config.generation_config is not None:
        words += f", generation config {msgspec.json.encode(config.generation_config).decode()}"
    if config.override_generation_config is not None:
        words += f", override {msgspec.json.encode(config.override_generation_config).decode()}"
    return words


def in_playing_order(scenarios: Sequence[ServeScenario]) -> list[ServeScenario]:
    """Grouped by configuration, so that a server is started once; those that end it stand last in their group."""
    groups: dict[bytes, list[ServeScenario]] = {}
    for scenario in scenarios:
        groups.setdefault(msgspec.json.encode(scenario.config), []).append(scenario)
    return [
        scenario
        for group in groups.values()
        for scenario in sorted(group, key=lambda item: (item.ends_server, item.fresh))
    ]


def _fit_for_more(observation: Serve) -> bool:
    after = observation.after
    return after is not None and not (after.running or after.waiting or after.cache_in_use)

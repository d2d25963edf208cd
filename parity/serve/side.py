"""A server as a side: started for the configuration that a scenario asks for, and shared while it is fit to be.

A server is used again for the next scenario with the same configuration unless that one asks for a fresh
server, this one got a signal or died, or a client's blocks did not come back. At most one server of a side
is up at any time, and `close` leaves none.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from parity.observation import Serve
from parity.scenario import ServerConfig, ServeScenario
from parity.serve import kept
from parity.serve.launcher import Launcher
from parity.serve.player import play
from parity.serve.server import Server, check, start, unless
from parity.serve.target import PlayFailed, own_end
from parity.serve.underway import UnderWay
from parity.serve.watch import WHOLE, Sight
from parity.side import Play

CLOSE_SECONDS = kept.CLOSE_SECONDS + 5.0
MAX_DEATHS = 3  # in a row, of one configuration's servers: what always dies must not cost an hour of starts
MAX_HOPELESS = 2  # configurations given up before any server ever came up; the others are not tried then

Announce = Callable[[str, str], AbstractContextManager[object]]  # around a start: whose, and of what


class Setup(msgspec.Struct, frozen=True):
    """How the servers of one side are started."""

    launcher: Launcher
    python: str
    environment: Mapping[str, str]
    root: Path  # working directory
    models: Path  # holds a folder for each model's name
    logs: Path  # gets one log a start
    sight: Sight = WHOLE  # what its scripts look at


class Times(msgspec.Struct):
    """What the servers of one side have cost so far, in seconds; a play that fails is one."""

    starts: int = 0
    start_seconds: float = 0.0
    play_seconds: float = 0.0
    end_seconds: float = 0.0

    @property
    def around(self) -> float:
        """What starts and ends took, around the plays."""
        return self.start_seconds + self.end_seconds


class ServeSide:
    """Plays scripts on servers of one launcher, one script at a time; `announce` is held around each start.

    `role` is oracle or subject: a launcher's own name does not tell the two sides apart.
    """

    def __init__(self, role: str, setup: Setup, announce: Announce, times: Times | None = None) -> None:
        self._role = role
        self._name = f"{role} ({setup.launcher.name})"
        self._setup = setup
        self._announce = announce
        self.times = times or Times()
        self._server: Server | None = None
        self._key = b""  # of the configuration that is up
        self._last = ""  # the script that the server that is up played last
        self._deaths: Counter[bytes] = Counter()  # since the last play that succeeded, by configuration
        self._came_up = False
        self._under_way = UnderWay()
        self._stop = threading.Event()

    @property
    def name(self) -> str:
        return self._name

    def check(self, configs: Iterable[ServerConfig]) -> None:
        """Raises UsageError for a server that could not be started as these ask for it; starts none."""
        setup = self._setup
        for config in configs:
            check(
                setup.launcher,
                config,
                python=setup.python,
                models=setup.models,
                root=setup.root,
                environment=setup.environment,
            )

    def begin(self, scenario: ServeScenario) -> None:
        self._under_way.begin(lambda: self._played(scenario))

    def finish(self) -> Play:
        """Wait for the script's end. Every wait within it is bounded, so this one is. Raises what the work raised."""
        return self._under_way.finish()

    def lost(self) -> str | None:
        """How the server that was up ended after its last script, unasked; null while it lives, or where none was up.

        Told once: the next script has another server.
        """
        server = self._server
        if server is None or server.alive():
            return None
        self._deaths[self._key] += 1
        told = f"{self._what()} {own_end(server)} (after it had played {self._last})"
        self._drop()
        return told

    def close(self) -> None:
        """End the server, and a start or a script that is under way, which fails; no other one begins."""
        self.call_off()
        self._drop()
        self._under_way.wait(CLOSE_SECONDS)
        self._drop()

    def call_off(self) -> None:
        """Begin to close, and do not wait."""
        self._stop.set()

    def _played(self, scenario: ServeScenario) -> Play:
        setup = self._setup
        key = encoded(scenario.config)
        try:
            server = self._fit(scenario, key)
        except PlayFailed as error:
            self._drop()
            return Play(None, str(error), 0.0)
        began = time.monotonic()
        failure: str | None = None
        try:
            called_off = f"a script on {self._what()} was called off"
            observation = asyncio.run(unless(self._stop, play(scenario, server, setup.sight), called_off))
        except PlayFailed as error:
            failure = str(error)
        seconds = time.monotonic() - began
        self.times.play_seconds += seconds
        if failure is not None:
            self._deaths[key] += not server.alive()
            self._drop()
            return Play(None, failure, seconds)
        del self._deaths[key]
        self._last = scenario.id
        if scenario.ends_server or (setup.sight.load and not _is_idle(observation)):
            self._drop()
        return Play(observation, None, seconds)

    def _fit(self, scenario: ServeScenario, key: bytes) -> Server:
        """A server for this scenario: the one that is up, or a new one. Raises PlayFailed."""
        lost = self.lost()
        if lost is not None:  # nobody would hear of it: the script was over, and the next server is another
            raise PlayFailed(lost)
        if self._server is not None:
            if self._key == key and not scenario.fresh:
                return self._server
            self._drop()
        self._check_hope(key)
        server = self._server = self._start(scenario.config, key)
        self._key, self._came_up = key, True
        if self._stop.is_set():  # `close` may have looked before there was a server
            raise PlayFailed(f"the start of {self._what()} was called off")
        return server

    def _check_hope(self, key: bytes) -> None:
        """Raises PlayFailed where another start would be in vain."""
        if self._deaths[key] >= MAX_DEATHS:
            raise PlayFailed(
                f"not started again after {self._deaths[key]} servers of this configuration in a row died"
            )
        given_up = sum(number >= MAX_DEATHS for number in self._deaths.values())
        if not self._came_up and given_up >= MAX_HOPELESS:
            raise PlayFailed(f"not started again: none of its servers came up, in {given_up} configurations")

    def _start(self, config: ServerConfig, key: bytes) -> Server:
        setup = self._setup
        self.times.starts += 1
        began = time.monotonic()
        try:
            with self._announce(self._name, f"server {self.times.starts} ({describe(config)})"):
                return start(
                    setup.launcher,
                    config,
                    name=self._what(),
                    python=setup.python,
                    models=setup.models,
                    root=setup.root,
                    environment=setup.environment,
                    log=setup.logs / f"{self.times.starts:02d}-{self._role}-{config.model}.log",
                    stop=self._stop,
                )
        except PlayFailed:
            self._deaths[key] += 1
            raise
        finally:
            self.times.start_seconds += time.monotonic() - began

    def _what(self) -> str:
        """What messages call the server that is up; the side itself is named before them."""
        return f"server {self.times.starts}"

    def _drop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            began = time.monotonic()
            server.close()
            self.times.end_seconds += time.monotonic() - began


def encoded(config: ServerConfig) -> bytes:
    """What makes two configurations the same: a number and a boolean that are equal in Python are not."""
    return msgspec.json.encode(config)


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
        groups.setdefault(encoded(scenario.config), []).append(scenario)
    return [
        scenario
        for group in groups.values()
        for scenario in sorted(group, key=lambda item: (item.ends_server, item.fresh))
    ]


def _is_idle(observation: Serve) -> bool:
    after = observation.after
    return after is not None and not (after.running or after.waiting or after.cache_in_use)

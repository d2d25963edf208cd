"""A server that runs already, as a side: scripts are played on it, and it is never started, signalled or ended.

It belongs to somebody else, who may use it, restart it or end it meanwhile: before each script it has to be idle, and
a connection that it refuses makes the script's play a failure.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from parity.errors import InconclusiveError
from parity.observation import Ended, Serve
from parity.scenario import ServerConfig, ServeScenario
from parity.serve.metrics import Load, MetricsUnreadable, parse
from parity.serve.player import SETTLE, play
from parity.serve.server import unless
from parity.serve.started_as import model_folder, otherwise
from parity.serve.target import PlayFailed
from parity.serve.underway import UnderWay
from parity.serve.watch import Sight, Watch
from parity.side import Play

HELLO_SECONDS = 10.0
CONNECT_SECONDS = 2.0
CLOSE_SECONDS = 15.0  # for a script that was called off, whose connections are each bounded


class Running:
    """The server at `base_url` as a Target. What only its owner can do, or know, raises PlayFailed."""

    def __init__(self, base_url: str, model: str) -> None:
        self.base_url = base_url
        self.model = model

    def alive(self) -> bool:
        """True where it takes a connection, or is too busy to. Raises PlayFailed where it refuses: how it ended,
        and whether it did, nobody here can tell."""
        place = urlsplit(self.base_url)
        try:
            socket.create_connection((place.hostname, place.port or 80), CONNECT_SECONDS).close()
        except TimeoutError:
            return True
        except OSError as error:
            raise PlayFailed(
                f"the server takes no connection any more ({error.strerror or error}), and the script had sent it no signal"
            ) from None
        return True

    def signal(self, name: str) -> None:
        raise PlayFailed(f"SIG{name} cannot be sent to a server that was not started here")

    def wait(self, seconds: float) -> Ended:
        del seconds
        raise PlayFailed("the end of a server that was not started here cannot be waited for")

    def last_words(self) -> str:
        return "(its log is its owner's)"


class HttpSide:
    """Plays scripts on the server at `url`, one at a time. `config` is what it is said to have been started with."""

    def __init__(self, role: str, url: str, config: ServerConfig, sight: Sight, models: Path) -> None:
        self._name = f"{role} ({url})"
        self._url = url.rstrip("/")
        self._config = config
        self._sight = sight
        self._model = str(models / config.model)  # unless the server says that it has it from elsewhere
        self._stop = threading.Event()
        self._under_way = UnderWay()
        self._last = ""  # the script that was played last

    @property
    def name(self) -> str:
        return self._name

    def check(self) -> None:
        """Raises InconclusiveError where nothing answers, or what answers is not what the subject's file says."""
        asyncio.run(self._check())

    def begin(self, scenario: ServeScenario) -> None:
        self._under_way.begin(lambda: self._played(scenario))

    def finish(self) -> Play:
        """Wait for the script's end. Every wait within it is bounded, so this one is. Raises what the work raised."""
        return self._under_way.finish()

    def call_off(self) -> None:
        """Begin to close, and do not wait."""
        self._stop.set()

    def close(self) -> None:
        """A script under way is called off; the server is left as it is."""
        self.call_off()
        self._under_way.wait(CLOSE_SECONDS)

    def _client(self) -> httpx.AsyncClient:
        """Each question over a connection of its own: some servers close one just as it is used again."""
        limits = httpx.Limits(max_keepalive_connections=0)
        return httpx.AsyncClient(base_url=self._url, trust_env=False, timeout=HELLO_SECONDS, limits=limits)

    async def _check_serves(self, client: httpx.AsyncClient) -> None:
        """Raises InconclusiveError for a server that cannot complete a token: it is none of an engine's."""
        body = {"model": self._config.model, "prompt": "a", "max_tokens": 1}
        try:
            answer = await client.post("/v1/completions", json=body)
            told = f"it answered {answer.status_code}"
        except httpx.HTTPError as error:
            answer, told = None, str(error) or type(error).__name__
        if answer is None or answer.status_code != httpx.codes.OK:
            raise InconclusiveError(
                f"the server at {self._url} completes no token of {self._config.model}: {told}",
                hint="is it the server that was meant?",
            )

    async def _check(self) -> None:
        async with self._client() as client:
            try:
                answer = await client.get("/metrics" if self._sight.load else "/v1/models")
                if self._sight.load:
                    _check_metrics(answer)
            except httpx.HTTPError as error:
                raise InconclusiveError(
                    f"no server answers at {self._url}: {str(error) or type(error).__name__}",
                    hint="start it, then run again",
                ) from None
            except MetricsUnreadable as error:
                raise InconclusiveError(
                    f"the server at {self._url} has not what the capability metrics claims: {error}",
                    hint="leave metrics out of the subject's capabilities, and preempted and after out of observes.serve",
                ) from None
            found = await otherwise(client, self._config)
            self._model = await model_folder(client, self._config.model) or self._model
        if found:
            raise InconclusiveError(
                f"the server at {self._url} says {'; '.join(map(str, found))}",
                hint="start it with door.http.config of the subject's file, or put there what it was started with",
            )
        async with self._client() as client:
            await self._check_serves(client)

    def _played(self, scenario: ServeScenario) -> Play:
        began = time.monotonic()
        called_off = f"a script on {self._url} was called off"
        try:
            observation = asyncio.run(unless(self._stop, self._play(scenario), called_off))
        except PlayFailed as error:
            return Play(None, str(error), time.monotonic() - began)
        self._last = scenario.id
        return Play(observation, None, time.monotonic() - began)

    async def _play(self, scenario: ServeScenario) -> Serve:
        await self._check_idle()
        return await play(scenario, Running(self._url, self._model), self._sight)

    async def _check_idle(self) -> None:
        """Raises PlayFailed where it is at something already: then what it does for the script would not be told apart."""
        if not self._sight.load:
            return
        watch = Watch(self._url, self._sight)
        if await watch.until(_is_idle, SETTLE, give_up=lambda: False) is not None:
            return
        load = await watch.load()
        Running(self._url, self._model).alive()
        what = "/metrics gives no answer" if load is None else _said(load)
        before = f" (after {self._last})" if self._last else ""
        raise PlayFailed(
            f"the server is not idle before the script{before}: {what}; is somebody else using it?"
        )


def _check_metrics(answer: httpx.Response) -> None:
    """Raises MetricsUnreadable."""
    if answer.status_code != httpx.codes.OK:
        raise MetricsUnreadable(f"/metrics answers {answer.status_code}")
    parse(answer.text)


def _is_idle(load: Load) -> bool:
    return load.idle


def _said(load: Load) -> str:
    held = "blocks are held" if load.cache_in_use else "no block is held"
    return f"{load.running} running, {load.waiting} waiting, {held}"

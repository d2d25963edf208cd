"""A server that runs already, as a side: scripts are played on it, and it is never started, signalled or ended."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import httpx

from parity.errors import InconclusiveError
from parity.observation import Ended
from parity.scenario import ServeScenario
from parity.serve.player import play
from parity.serve.server import unless
from parity.serve.target import PlayFailed
from parity.side import Play

HELLO_SECONDS = 10.0


class Running:
    """The server at `base_url` as a Target. What only its owner can do raises PlayFailed."""

    def __init__(self, base_url: str, model: str) -> None:
        self.base_url = base_url
        self.model = model

    def alive(self) -> bool:
        return True  # nobody here would know; a connection that breaks tells

    def signal(self, name: str) -> None:
        raise PlayFailed(f"SIG{name} cannot be sent to a server that was not started here")

    def wait(self, seconds: float) -> Ended:
        del seconds
        raise PlayFailed("the end of a server that was not started here cannot be waited for")

    def last_words(self) -> str:
        return ""


class HttpSide:
    """Plays scripts on the server at `url`. The model's folder is `models`/<name>, for its tokenizer's sake."""

    def __init__(self, role: str, url: str, models: Path) -> None:
        self._name = f"{role} ({url})"
        self._url = url.rstrip("/")
        self._models = models
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._play: Play | None = None

    @property
    def name(self) -> str:
        return self._name

    def check(self) -> None:
        """Raises InconclusiveError where nothing answers."""
        try:
            httpx.get(f"{self._url}/health", timeout=HELLO_SECONDS)
        except httpx.HTTPError as error:
            raise InconclusiveError(
                f"no server answers at {self._url}: {type(error).__name__}", hint="start it, then run again"
            ) from None

    def begin(self, scenario: ServeScenario) -> None:
        self._play = None
        self._thread = threading.Thread(target=self._work, args=(scenario,), daemon=True)
        self._thread.start()

    def finish(self) -> Play:
        assert self._thread is not None, "finish() without begin()"
        self._thread.join()
        self._thread = None
        assert self._play is not None, "the work ended without a play"
        return self._play

    def close(self) -> None:
        """Nothing was started; a script under way is called off."""
        self._stop.set()

    def _work(self, scenario: ServeScenario) -> None:
        began = time.monotonic()
        target = Running(self._url, str(self._models / scenario.config.model))
        try:
            called_off = f"a script on {self._url} was called off"
            observation = asyncio.run(unless(self._stop, play(scenario, target), called_off))
        except PlayFailed as error:
            self._play = Play(None, str(error), time.monotonic() - began)
        except Exception as error:  # noqa: BLE001 - told as the play's failure: nobody else waits for this thread
            self._play = Play(None, f"{type(error).__name__}: {error}", time.monotonic() - began)
        else:
            self._play = Play(observation, None, time.monotonic() - began)

"""A server that serves: started by its launcher's command, waited for, signalled, and ended with all that belongs to it.

A port is chosen here and given to the server, which can lose it to somebody else before it binds: then it is started again
on another one. Ready means that its ready path answered 200 and that a first completion of one token came back whole.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec

from parity.errors import InconclusiveError, UsageError
from parity.observation import Ended
from parity.scenario import Json, ServerConfig
from parity.serve.keeper import below
from parity.serve.kept import Kept
from parity.serve.launcher import Launcher, Ready, command
from parity.serve.ports import HOST, free_port, is_free, listens
from parity.serve.started_as import otherwise
from parity.serve.target import PlayFailed

STARTS = 3  # each on a port of its own
POLL_SECONDS = 0.1
PROBE_SECONDS = 5.0  # for one question whether it is ready
NOTICE_SECONDS = 1.0  # a process's connections are gone a moment before it is
PROMPT = [5]  # one token, so that no block of two or more is full and stays in the prefix cache
LAST_LINES = 12
LONGEST_LINE = 300  # characters
TAIL_BYTES = 1 << 16
Result = TypeVar("Result")
_CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[^\t\x20-\x7e\xa0-\U0010ffff]")


class _PortTaken(Exception):
    """The server ended while somebody else had its port."""


class Server:
    """A server under a keeper; `start` makes it ready, and then it is a `parity.serve.target.Target`.

    `seconds` is what it took to be ready, `command` its command line.
    """

    def __init__(
        self, name: str, config: ServerConfig, model: Path, port: int, line: list[str], kept: Kept
    ) -> None:
        self._name = name
        self._config = config
        self._model = model
        self._port = port
        self._kept = kept
        self.command = line
        self.seconds = 0.0

    @property
    def base_url(self) -> str:
        return f"http://{HOST}:{self._port}"

    @property
    def model(self) -> str:
        return str(self._model)

    @property
    def pid(self) -> int:
        return self._kept.pid

    @property
    def log(self) -> Path:
        return self._kept.log

    def alive(self) -> bool:
        return self._kept.alive()

    def signal(self, name: str) -> None:
        self._kept.send(signal.Signals[f"SIG{name}"])

    def wait(self, seconds: float) -> Ended:
        """Wait for its end, at most so long; a second more where processes of its outlive it. Raises PlayFailed."""
        try:
            return self._kept.wait(seconds)
        except PlayFailed as error:
            raise PlayFailed(f"{error}; its last words:\n{self.last_words()}") from None

    def last_words(self) -> str:
        return last_lines(self._kept.log)

    def close(self) -> None:
        """End it, with every process of its. Can be called again."""
        self._kept.close()

    def await_ready(self, ready: Ready, stop: threading.Event) -> None:
        """Raises PlayFailed when it ends, is not ready in time or is called off, _PortTaken when it has no port."""
        begun = time.monotonic()
        asyncio.run(unless(stop, self._become_ready(ready), f"the start of {self._name} was called off"))
        self.seconds = time.monotonic() - begun

    async def _become_ready(self, ready: Ready) -> None:
        deadline = time.monotonic() + ready.seconds
        async with httpx.AsyncClient(
            base_url=self.base_url, trust_env=False, verify=False, timeout=None
        ) as client:
            while True:
                left = max(deadline - time.monotonic(), POLL_SECONDS)
                answer = await _ask(client, "GET", ready.path, min(left, PROBE_SECONDS))
                self._check_alive()
                if answer is not None and answer.status_code == httpx.codes.OK and self._listens():
                    break
                if time.monotonic() > deadline:
                    raise self._failed(f"did not answer {ready.path} with 200 within {ready.seconds:g} s")
                await asyncio.sleep(POLL_SECONDS)
            await self._complete(client, max(deadline - time.monotonic(), PROBE_SECONDS))
            found = await otherwise(client, self._config)
        if found:
            raise self._failed(f"was not started as asked: it says {'; '.join(map(str, found))}")

    async def _complete(self, client: httpx.AsyncClient, seconds: float) -> None:
        body = {"model": self._model.name, "prompt": PROMPT, "max_tokens": 1, "temperature": 0}
        answer = await _ask(client, "POST", "/v1/completions", seconds, body)
        if answer is None:
            self._kept.wait(NOTICE_SECONDS)
        self._check_alive()
        if answer is None:
            raise self._failed(f"gave no answer to its first completion ({seconds:.0f} s)")
        if answer.status_code != httpx.codes.OK:
            raise self._failed(
                f"answered its first completion with {answer.status_code}: {answer.text[:200]}"
            )

    def _listens(self) -> bool:
        """Whether it was this server that answered, and not somebody else who has its port."""
        return listens([self.pid, *below(self.pid)], self._port)

    def _check_alive(self) -> None:
        if self._kept.alive():
            return
        ended = self._kept.wait(0)
        self._kept.close()  # a process that it left might hold the port
        if not is_free(self._port):
            raise _PortTaken
        raise self._failed(f"ended with status {ended.code} before it was ready")

    def _failed(self, what: str) -> PlayFailed:
        return PlayFailed(f"{self._name} {what}; its last words:\n{self.last_words()}")


def check(
    launcher: Launcher,
    config: ServerConfig,
    *,
    python: str,
    models: Path,
    root: Path,
    environment: Mapping[str, str],
) -> None:
    """Whether `start` with the same could be asked for. Raises UsageError; starts nothing."""
    folder = None if config.generation_config is None else root
    model = find_model(models, config.model)
    program = command(
        launcher, config, python=python, model=model, host=HOST, port=1, generation_config=folder
    )[0]
    place = str(root / program) if os.sep in program else program
    if shutil.which(place, path={**environment, **launcher.environment}.get("PATH")) is None:
        raise UsageError(
            f"launcher {launcher.name}: there is no command {program}",
            hint="install it, or name it as the project's root or PATH finds it",
        )


def start(
    launcher: Launcher,
    config: ServerConfig,
    *,
    name: str,
    python: str,
    models: Path,
    root: Path,
    environment: Mapping[str, str],
    log: Path,
    stop: threading.Event | None = None,
) -> Server:
    """A server of `config` that completed a first tiny request; `name` is what messages call it.

    `environment` is all that it gets beside the launcher's variables and a TMPDIR that goes away with it; setting `stop`
    in another thread calls the start off. Raises PlayFailed, with the log's tail, when it ends or is not ready in
    time, UsageError for what it cannot be asked for, and InconclusiveError where this machine cannot start one.
    """
    model = find_model(models, config.model)
    for _ in range(STARTS):
        server = _launch(launcher, config, name, python, model, root, environment, log)
        try:
            server.await_ready(launcher.ready, stop or threading.Event())
        except _PortTaken:
            server.close()
        except BaseException:
            server.close()
            raise
        else:
            return server
    raise PlayFailed(f"{name} found its port taken {STARTS} times; its last words:\n{last_lines(log)}")


def find_model(models: Path, name: str) -> Path:
    """The folder of a model. Raises UsageError where it was not made."""
    model = models / name
    if not model.is_dir():
        raise UsageError(f"{model} is not there", hint="`make model` makes the models that scenarios serve")
    return model


def _launch(
    launcher: Launcher,
    config: ServerConfig,
    name: str,
    python: str,
    model: Path,
    root: Path,
    environment: Mapping[str, str],
    log: Path,
) -> Server:
    """A server on its way up, on a port that was free a moment ago."""
    scratch: Path | None = None
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.open("ab").close()  # what cannot be written is no fault of the command's
        port = free_port()
        scratch = Path(tempfile.mkdtemp(prefix="nullblock-serve-"))
        line = command(
            launcher,
            config,
            python=python,
            model=model,
            host=HOST,
            port=port,
            generation_config=_write_generation_config(config, scratch),
        )
        variables = {**environment, **launcher.environment, "TMPDIR": str(scratch)}
        kept = Kept(name, line, folder=root, environment=variables, log=log, scratch=scratch)
    except BaseException as error:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
        if isinstance(error, OSError):
            raise _no_room(name, error) from None
        raise
    return Server(name, config, model, port, line, kept)


def _no_room(name: str, error: OSError) -> InconclusiveError:
    where = f"{error.filename}: " if error.filename else ""
    return InconclusiveError(
        f"{name} cannot be started on this machine: {where}{error.strerror or error}",
        hint="free some space, let runs/ be written, or set TMPDIR to a folder with room",
    )


def _write_generation_config(config: ServerConfig, folder: Path) -> Path | None:
    """The operator's generation config where the flag looks for it: a file of a fixed name in a folder."""
    if config.generation_config is None:
        return None
    (folder / "generation_config.json").write_bytes(msgspec.json.encode(config.generation_config))
    return folder


async def unless(stop: threading.Event, work: Coroutine[Any, Any, Result], what: str) -> Result:
    """What `work` gives. Raises PlayFailed that says `what`, at once, when another thread sets `stop`."""
    task = asyncio.create_task(work)
    while not stop.is_set():
        if (await asyncio.wait({task}, timeout=POLL_SECONDS))[0]:
            return task.result()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    raise PlayFailed(what)


async def _ask(
    client: httpx.AsyncClient, method: str, path: str, seconds: float, body: Json = None
) -> httpx.Response | None:
    """The whole answer, or null if there is none in time."""
    try:
        async with asyncio.timeout(seconds):
            return await client.request(method, path, json=body)
    except (httpx.HTTPError, TimeoutError):
        return None


def last_lines(log: Path) -> str:
    """The last lines of a log that say something, without control characters."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError as error:
        return f"(its log {log} cannot be read: {error.strerror})"
    lines = [_CONTROL.sub("", line).rstrip() for line in text.split("\n")]
    return "\n".join([line[:LONGEST_LINE] for line in lines if line.strip()][-LAST_LINES:])

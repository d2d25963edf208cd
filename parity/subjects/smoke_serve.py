"""Smoke for a subject's server: one start, one tiny completion, and `/metrics` where that is claimed."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import msgspec

from oracle.interpreter import oracle_environment, oracle_python
from oracle.pins import Pin
from parity.errors import InconclusiveError
from parity.oracle_side import oracle_faults
from parity.report.progress import RunProgress
from parity.runfile import shown
from parity.scenario import Case, ServerConfig, ServeScenario
from parity.serve.launcher import DEFAULTS
from parity.serve.metrics import MetricsUnreadable, parse
from parity.serve.server import PROMPT, check, start
from parity.serve.side import describe
from parity.serve.started_as import otherwise
from parity.serve.target import PlayFailed
from parity.subjects.capabilities import OF_LEVELS
from parity.subjects.choice import sort_out
from parity.subjects.doors import HttpDoor, ServeDoor
from parity.subjects.fields import unobserved
from parity.subjects.players import MODELS, check_models
from parity.subjects.smoke import Line
from parity.subjects.subject import Loaded

SECONDS = 30.0  # for one answer of a server that runs
LATER = "played by `parity run`, not here"


def try_servers(
    root: Path, loaded: Loaded, pin: Pin, suite: Sequence[Case], logs: Path, progress: RunProgress
) -> list[Line]:
    """The lines of the serve door or the http door. Raises InconclusiveError, UsageError for what is missing here."""
    door = loaded.subject.door
    if door.http is not None:
        lines = list(_running(door.http, loaded))
    else:
        assert door.serve is not None, "level serve without a door"
        lines = list(_started(door.serve, root, loaded, pin, suite, logs, progress))
    told = {line.name for line in lines}
    claimed = [name for name in OF_LEVELS["serve"] if name in loaded.subject.can and name not in told]
    return [*lines, *(Line("capability", name, "unexercised", LATER) for name in claimed)]


def _started(
    door: ServeDoor,
    root: Path,
    loaded: Loaded,
    pin: Pin,
    suite: Sequence[Case],
    logs: Path,
    progress: RunProgress,
) -> Iterator[Line]:
    check_models(root)
    config = _config(loaded, suite)
    python, environment = sys.executable, dict(os.environ)
    if door.python == "oracle":
        with oracle_faults():
            python, environment = str(oracle_python(root, pin)), oracle_environment(root, pin)
    launcher, models = door.launcher(loaded.subject.name), root / MODELS
    check(launcher, config, python=python, models=models, root=loaded.folder, environment=environment)
    log = logs / f"smoke-{config.model}.log"
    try:
        with progress.starting(f"starting the server of {loaded.subject.name} ({describe(config)})"):
            server = start(
                launcher,
                config,
                name="the server",
                python=python,
                models=models,
                root=loaded.folder,
                environment=environment,
                log=log,
            )
    except PlayFailed as error:
        yield Line("door", "serve", "broken", " ".join(str(error).split()))
        return
    with closing(server):
        yield Line(
            "door",
            "serve",
            "ok",
            f"ready and one token completed in {server.seconds:.1f} s; its log: {shown(root, log)}",
        )
        yield from _metrics(server.base_url, loaded)


def _running(door: HttpDoor, loaded: Loaded) -> Iterator[Line]:
    url, started = door.url.rstrip("/"), door.started
    body = {"model": started.model, "prompt": PROMPT, "max_tokens": 1, "temperature": 0}
    questions: list[tuple[str, str, dict[str, Any] | None]] = [("GET", "/health", None)]
    if "health" in unobserved(loaded.subject.observes, "serve"):
        questions = []
    for method, path, sent in (*questions, ("POST", "/v1/completions", body)):
        name = f"http: {path}"
        try:
            answer = httpx.request(method, url + path, json=sent, timeout=SECONDS, trust_env=False)
        except httpx.HTTPError as error:
            yield Line("door", name, "broken", f"no answer at {url}: {error or type(error).__name__}")
            return
        is_good = answer.status_code == httpx.codes.OK
        told = f"{answer.status_code}" if is_good else f"{answer.status_code}: {answer.text[:200]!r}"
        yield Line("door", name, "ok" if is_good else "broken", told)
    said = asyncio.run(_otherwise(url, started))
    if said:
        yield Line("door", "http: started as its file says", "unmet", f"it says {'; '.join(said)}")
    yield from _metrics(url, loaded)


async def _otherwise(url: str, config: ServerConfig) -> list[str]:
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=SECONDS) as client:
        return [str(item) for item in await otherwise(client, config)]


def _metrics(url: str, loaded: Loaded) -> Iterator[Line]:
    if "metrics" not in loaded.subject.can:
        return
    try:
        answer = httpx.get(f"{url}/metrics", timeout=SECONDS, trust_env=False)
        answer.raise_for_status()
        parse(answer.text)
    except (httpx.HTTPError, MetricsUnreadable) as error:
        told = " ".join(str(error).split()) or type(error).__name__
        yield Line("capability", "metrics", "unmet", f"/metrics cannot be read: {told[:200]}")
    else:
        yield Line("capability", "metrics", "ok", "/metrics tells the load")


def _config(loaded: Loaded, suite: Sequence[Case]) -> ServerConfig:
    """A configuration that the subject can be started with: the plainest of the scripts that are compared."""
    scripts = [case for case in suite if isinstance(case.scenario, ServeScenario) and not case.full]
    compared, _ = sort_out(scripts, [loaded])
    configs = [case.scenario.config for case in compared if isinstance(case.scenario, ServeScenario)]
    if configs:
        return min(configs, key=_oddness)
    raise InconclusiveError(
        f"no script of the suite can be played on {loaded.subject.name}",
        hint="see which capabilities and flags its file lacks",
    )


def _oddness(config: ServerConfig) -> int:
    """How many of its keys are not the defaults."""
    values = msgspec.structs.asdict(config)
    return sum(key not in DEFAULTS or value != DEFAULTS[key] for key, value in values.items())

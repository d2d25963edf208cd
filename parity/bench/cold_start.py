"""From starting a server's process to its first token: what somebody waits for who types the command.

The files may be in the system's page cache or not; both servers are started once, ours first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

import httpx

from engine.throughput import IncompleteRunError, RequestRun, require_complete_request_set
from parity.bench.figures import OURS, UPSTREAM, Figure, Spread
from parity.bench.side import SideFailed, end_group
from parity.serve.ports import free_port

API_SERVER = "vllm.entrypoints.openai.api_server"
TARGET = 0.5  # of upstream's
POLL_SECONDS = 0.05
PATIENCE_SECONDS = 300.0
PROMPT = list(range(100, 116))


def cold_start(
    model: Path, root: Path, upstream_python: Path, upstream_environment: Mapping[str, str], pool_bytes: int
) -> Figure:
    """Both servers once, float32, one after the other."""
    what = "float32: cold start of the server to its first token, ours / upstream"
    shared = ["--dtype", "float32", "--host", "127.0.0.1", "--kv-cache-memory-bytes", str(pool_bytes)]
    commands: dict[str, tuple[list[str], Mapping[str, str]]] = {
        OURS: ([sys.executable, "-m", "engine.cli.main", "serve", str(model), *shared], os.environ),
        UPSTREAM: (
            [str(upstream_python), "-m", API_SERVER, "--model", str(model), "--enforce-eager", *shared],
            upstream_environment,
        ),
    }
    try:
        seconds = {
            name: first_token(name, command, root, environment, str(model))
            for name, (command, environment) in commands.items()
        }
    except SideFailed as error:
        return Figure(what, None, TARGET, "at most", str(error))
    ratio = seconds[OURS] / seconds[UPSTREAM]
    note = f"{seconds[OURS]:.1f} s, {seconds[UPSTREAM]:.1f} s, one start each"
    return Figure(what, Spread(ratio, ratio, ratio), TARGET, "at most", note)


def first_token(
    name: str,
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    model: str,
    patience: float = PATIENCE_SECONDS,
) -> float:
    """Seconds until a streamed completion's first token; the server is ended afterwards.

    `command` gets `--port N`. Raises SideFailed when it ends, refuses, or has no token within `patience` seconds.
    """
    port = free_port()
    started = time.monotonic()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*command, "--port", str(port)],
            cwd=folder,
            env=dict(environment),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

        def check() -> None:
            if process.poll() is not None:
                raise SideFailed(f"{name} ended with {process.returncode}{_last_words(log)}")
            if time.monotonic() - started > patience:
                raise SideFailed(f"{name} had no token within {patience:g} s{_last_words(log)}")

        try:
            return _ask(name, f"http://127.0.0.1:{port}", model, check, patience) - started
        finally:
            end_group(process)


def _ask(name: str, base: str, model: str, check: Callable[[], None], patience: float) -> float:
    """Knock until somebody answers; the time at which the first token came."""
    body = {"model": model, "prompt": PROMPT, "max_tokens": 1, "temperature": 0, "stream": True}
    with httpx.Client(base_url=base, timeout=patience, trust_env=False) as client:
        while True:
            check()
            try:
                with client.stream("POST", "/v1/completions", json=body) as response:
                    if response.status_code != 200:
                        response.read()
                        raise SideFailed(f"{name} answered {response.status_code}: {response.text[:200]}")
                    return _first(name, response)
            except httpx.ConnectError:
                time.sleep(POLL_SECONDS)
            except httpx.HTTPError as error:
                raise SideFailed(f"{name}: {type(error).__name__}: {error}") from None


def _first(name: str, response: httpx.Response) -> float:
    """When the stream's first token came, if the stream then ends as it should."""
    came: float | None = None
    reason: str | None = None
    error: str | None = None
    for line in response.iter_lines():
        if not line.startswith("data: ") or line == "data: [DONE]":
            continue
        chunk = json.loads(line[6:])
        if "error" in chunk:
            error = json.dumps(chunk["error"])
        elif chunk["choices"]:
            came = time.monotonic() if came is None else came
            reason = chunk["choices"][0]["finish_reason"] or reason
    run = RequestRun(name, reason, int(came is not None), 1, error)
    try:
        require_complete_request_set([run], 1)
    except IncompleteRunError as fault:
        raise SideFailed(str(fault)) from None
    assert came is not None
    return came


def _last_words(log: IO[bytes]) -> str:
    log.seek(0)
    lines = [line.strip() for line in log.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return f"; its last words: {lines[-1][:300]}" if lines else ""

"""Starts `nullblock serve` as a user does, and ends only what it started."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

ADDRESS = re.compile(r"serving .* on (http://\S+)")
READY_SECONDS = 90.0
ROOT = Path(__file__).resolve().parents[3]
STUCK: dict[str, Any] = {"prompt": [5] * 8, "max_tokens": 56, "ignore_eos": True, "temperature": 0}


class Running:
    """A server process; `log` are its lines so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.log: list[str] = []
        self.base = ""
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            found = ADDRESS.search(line)
            if found:
                self.base = found.group(1)
                self._ready.set()
        self._ready.set()

    def wait_ready(self) -> None:
        self._ready.wait(READY_SECONDS)
        assert self.base, "the server did not come up:\n" + "".join(self.log)

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.base, timeout=30, **options)

    def metric(self, name: str) -> float:
        text = httpx.get(f"{self.base}/metrics").text
        found = re.findall(rf"^{re.escape(name)}(?:{{| )[^\n]*? (\S+)$", text, re.M)
        return sum(map(float, found))

    def wait_for(self, condition: Callable[[], bool], seconds: float = 20) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "it did not come to pass; the log:\n" + "".join(self.log)
            time.sleep(0.02)

    def wait_stuck(self, count: int = 1) -> None:
        """Wait until `count` requests wait for capacity and nothing runs."""

        def stuck() -> bool:
            waiting = self.metric("vllm:num_requests_waiting_by_reason")
            return waiting == count and self.metric("vllm:num_requests_running") == 0

        self.wait_for(stuck)

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def close(self) -> None:
        """Give back the pipe of a process that has ended."""
        self._reader.join(10)
        if self.process.stderr is not None:
            self.process.stderr.close()

    def wait_exit(self, seconds: float = 10) -> int:
        return self.process.wait(seconds)


class Call:
    """A request in a thread of its own; `outcome` is its response or what was raised."""

    def __init__(self, send: Callable[[], httpx.Response]) -> None:
        self._send = send
        self.outcome: httpx.Response | Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.outcome = self._send()
        except httpx.HTTPError as error:
            self.outcome = error

    def response(self, seconds: float = 20) -> httpx.Response:
        self._thread.join(seconds)
        assert isinstance(self.outcome, httpx.Response), repr(self.outcome)
        return self.outcome


class Leaver:
    """A client that sends a request, reads nothing, and goes when it is told to."""

    def __init__(self, base: str, body: dict[str, Any]) -> None:
        host, _, port = base.removeprefix("http://").partition(":")
        content = json.dumps(body).encode()
        head = (
            f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\n\r\n"
        )
        self._socket = socket.create_connection((host, int(port)), 10)
        self._socket.sendall(head.encode() + content)

    def leave(self) -> None:
        self._socket.close()


@contextmanager
def starting(model: Path, *flags: str) -> Iterator[Running]:
    """A server of `model` on a free port, on its way up; killed in the end if it still lives."""
    command = [sys.executable, "-m", "engine.cli.main", "serve", str(model), "--port", "0", *flags]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment)
    server = Running(process)
    try:
        yield server
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(10)
        server.close()


@contextmanager
def running(model: Path, *flags: str) -> Iterator[Running]:
    """A server of `model` on a free port, ready to serve."""
    with starting(model, *flags) as server:
        server.wait_ready()
        yield server


def failing(*arguments: str) -> tuple[int, str]:
    """Exit code and stderr of a `nullblock serve` that must not come up."""
    done = subprocess.run(
        [sys.executable, "-m", "engine.cli.main", "serve", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr

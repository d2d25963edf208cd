"""Speaks to the application in this process, without a socket, and reads what it says."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx

from engine.llm import LLM
from engine.server.app import create_app
from engine.server.flights import Flights
from engine.server.params import Defaults, defaults_from
from engine.server.service import describe

SECONDS = 30.0  # more than any answer of the tiny model takes


class Talk:
    """One application over one engine."""

    def __init__(
        self,
        llm: LLM,
        *,
        keys: tuple[str, ...] = (),
        names: tuple[str, ...] = ("tiny",),
        defaults: Defaults | None = None,
    ) -> None:
        self.llm = llm
        chosen = defaults_from(llm.defaults, llm.ceiling) if defaults is None else defaults
        served = describe("folder/tiny", names, "test", chosen)
        self.flights = Flights(llm)
        self.app = create_app(served, llm, self.flights, keys, {"block_size": "16"})

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def once() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://test", timeout=SECONDS
            ) as client:
                return await client.request(method, path, **options)

        return asyncio.run(once())

    def post(self, path: str, body: object) -> httpx.Response:
        return self.send("POST", path, json=body)

    def complete(self, **body: Any) -> Any:
        """A completion that must succeed; greedy, three tokens and no EOS unless `body` says otherwise."""
        values = {"prompt": [100, 101, 102], "max_tokens": 3, "temperature": 0, "ignore_eos": True}
        response = self.post("/v1/completions", values | body)
        assert response.status_code == 200, response.text
        return response.json()

    def chat(self, **body: Any) -> Any:
        values = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 3, "temperature": 0}
        response = self.post("/v1/chat/completions", values | {"ignore_eos": True} | body)
        assert response.status_code == 200, response.text
        return response.json()

    def frames(self, path: str, body: dict[str, Any]) -> list[Any]:
        """The frames of a stream: JSON values, and `[DONE]` as it is."""
        response = self.post(path, body)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        return frames(response.text)

    def assert_idle(self) -> None:
        deadline = time.monotonic() + SECONDS
        usable = self.llm.core.plan.usable_blocks
        while time.monotonic() < deadline:
            stats = self.llm.stats()
            if (stats.running, stats.waiting, stats.free_blocks) == (0, 0, usable):
                break
            time.sleep(0.01)
        stats = self.llm.stats()
        assert (stats.running, stats.waiting, stats.free_blocks) == (0, 0, usable)
        assert len(self.flights) == 0


def frames(text: str) -> list[Any]:
    parts = text.split("\n\n")
    assert parts[-1] == "", "a stream ends with a whole frame"
    data = [part.removeprefix("data: ") for part in parts[:-1]]
    return [value if value == "[DONE]" else json.loads(value) for value in data]


def error_of(response: httpx.Response) -> tuple[int, str, str | None, int]:
    """(status, type, param, code) of an error in upstream's shape."""
    body = response.json()
    assert list(body) == ["error"]
    assert list(body["error"]) == ["message", "type", "param", "code"]
    assert body["error"]["message"]
    return response.status_code, body["error"]["type"], body["error"]["param"], body["error"]["code"]

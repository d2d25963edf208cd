"""The end, seen by those who come as it begins: a status 503 or an answer that is whole, never something between."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from engine.server import door
from tests.engine.server.talk import Talk, frames

BODY = {"prompt": [100, 101], "max_tokens": 40, "n": 2, "temperature": 1, "stream": True, "ignore_eos": True}
CHAT = {
    "messages": [{"role": "user", "content": "x"}],
    "max_tokens": 40,
    "n": 2,
    "temperature": 1,
    "stream": True,
}
CASES = [("/v1/completions", BODY), ("/v1/chat/completions", CHAT)]


class Call:
    """One request, message by message; `on` is called before a message of the answer is noted."""

    def __init__(
        self, talk: Talk, path: str, chunks: list[bytes], on: Callable[[str], Awaitable[None]]
    ) -> None:
        self._talk = talk
        self._path = path
        self._chunks = [*chunks]
        self._on = on
        self.waits = asyncio.Event()
        self.status = 0
        self.content = b""

    async def run(self) -> None:
        headers = [(b"content-type", b"application/json"), (b"host", b"test")]
        scope = {
            "type": "http",
            "method": "POST",
            "path": self._path,
            "headers": headers,
            "query_string": b"",
        }
        scope |= {"http_version": "1.1", "scheme": "http", "root_path": "", "server": ("test", 80)}
        await self._talk.app(scope, self._receive, self._send)

    async def _receive(self) -> dict[str, Any]:
        if self._chunks:
            chunk = self._chunks.pop(0)
            return {"type": "http.request", "body": chunk, "more_body": not chunk.endswith(b"}")}
        self.waits.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def _send(self, message: Any) -> None:
        await self._on(message["type"])
        if message["type"] == "http.response.start":
            self.status = message["status"]
        self.content += message.get("body", b"")


async def nothing(_kind: str) -> None:
    """For a call that is left alone."""


@pytest.mark.parametrize(("path", "body"), CASES)
def test_a_stream_whose_status_is_out_ends_with_a_finish_chunk_for_each_choice(
    path: str, body: dict[str, Any], talk: Talk
) -> None:
    async def go() -> Call:
        async def ending(kind: str) -> None:
            if kind == "http.response.start":
                talk.flights.refuse_new()
                closing.append(asyncio.ensure_future(talk.flights.abort_all()))
                await asyncio.sleep(0)

        closing: list[asyncio.Future[None]] = []
        call = Call(talk, path, [json.dumps(body).encode()], ending)
        await asyncio.wait_for(call.run(), 10)
        await closing[0]
        return call

    call = asyncio.run(go())

    sent = frames(call.content.decode())
    assert (call.status, sent[-1]) == (200, "[DONE]")
    choices = [choice for frame in sent[:-1] for choice in frame["choices"]]
    assert sorted(c["index"] for c in choices if c["finish_reason"] == "abort") == [0, 1]


@pytest.mark.parametrize(("path", "body"), CASES)
def test_a_stream_that_comes_after_the_signal_has_status_503(
    path: str, body: dict[str, Any], talk: Talk
) -> None:
    talk.flights.refuse_new()

    response = talk.post(path, body)

    assert response.status_code == 503
    assert response.json()["error"]["type"] == "ServiceUnavailableError"


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/tokenize"])
def test_half_a_body_is_answered_when_the_end_begins(
    path: str, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "ARRIVAL_SECONDS", 0.05)

    async def go() -> list[Call]:
        before, after = (Call(talk, path, [b'{"prompt":'], nothing) for _ in range(2))
        task = asyncio.ensure_future(before.run())
        await before.waits.wait()
        talk.flights.refuse_new()
        await asyncio.wait_for(asyncio.gather(task, after.run()), 5)
        return [before, after]

    for call in asyncio.run(go()):
        assert call.status == 503
        error = json.loads(call.content)["error"]
        assert (error["type"], error["param"], error["code"]) == ("ServiceUnavailableError", None, 503)


def test_a_body_that_comes_in_time_is_read(talk: Talk) -> None:
    async def go() -> Call:
        call = Call(talk, "/tokenize", [b'{"prompt":', b'"hello"}'], nothing)
        talk.flights.refuse_new()
        await asyncio.wait_for(call.run(), 5)
        return call

    assert asyncio.run(go()).status == 200


def test_whoever_cancels_a_request_for_another_reason_is_obeyed(talk: Talk) -> None:
    async def go() -> Call:
        call = Call(talk, "/tokenize", [b'{"prompt":'], nothing)
        task = asyncio.ensure_future(call.run())
        await call.waits.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return call

    assert asyncio.run(go()).status == 0

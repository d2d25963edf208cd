"""One exchange against a server of vices: how it ends, what came, and that nobody is left connected."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from parity.scenario import Exchange
from parity.serve import exchange as module
from parity.serve.exchange import Call, Raw
from parity.serve.metrics import Load
from parity.serve.target import PlayFailed
from tests.parity.serve.fake_http import STREAM, FakeServer, Write, chunk, fake_server
from tests.parity.serve.scripts import exchange

IDLE = Load(0, 0, {}, False, 0)
STUCK = Load(0, 1, {"capacity": 1}, False, 0)
BUSY = Load(1, 0, {}, True, 0)


def with_server(test: Callable[[FakeServer], Coroutine[Any, Any, Raw]]) -> tuple[Raw, FakeServer]:
    async def run() -> tuple[Raw, FakeServer]:
        async with fake_server() as server:
            raw = await test(server)
            await server.settled()
            return raw, server

    return asyncio.run(run())


def play(asked: Exchange, load: Load | None = IDLE) -> tuple[Raw, FakeServer]:
    async def look() -> Load | None:
        return load

    return with_server(lambda server: Call(server.base_url, asked, look).run())


def test_what_goes_out_is_what_the_scenario_says() -> None:
    text = '{"model":  "é", "odd\\u0020": NaN'

    _, server = play(Exchange("a", "PUT", "/plain?q=%20", {"X-One": "1"}, text, None, None))
    head, _, body = server.requests[0].partition(b"\r\n\r\n")

    assert body == text.encode()
    assert sorted(head.split(b"\r\n")) == sorted(
        [
            b"PUT /plain?q=%20 HTTP/1.1",
            f"Host: {server.base_url.removeprefix('http://')}".encode(),
            b"X-One: 1",
            b"Content-Length: %d" % len(text.encode()),
        ]
    )


async def no_look() -> Load | None:
    return None


def test_a_whole_answer() -> None:
    raw, _ = play(exchange("a", "/plain"))

    assert raw.ending == "answered"
    assert raw.status == 200
    assert raw.headers["allow"] == "GET"
    assert raw.content.startswith(b'{"id":"cmpl')
    assert not raw.timed


def test_a_whole_stream_is_joined_from_its_chunks() -> None:
    raw, _ = play(exchange("a", "/stream"))

    assert (raw.ending, raw.is_stream) == ("answered", True)
    assert raw.content.endswith(b"data: [DONE]\n\n")
    assert raw.content.count(b"\n\n") == 4


@pytest.mark.parametrize(
    ("path", "status", "content"),
    [
        ("/broken_before", None, b""),
        ("/garbage", None, b""),
        ("/broken_body", 200, b'{"a": '),
    ],
)
def test_a_connection_that_ends_early_is_broken(path: str, status: int | None, content: bytes) -> None:
    raw, _ = play(exchange("a", path))

    assert (raw.ending, raw.status, raw.content) == ("broken", status, content)


def test_a_stream_that_ends_within_a_frame_is_broken() -> None:
    raw, _ = play(exchange("a", "/broken_frame"))

    assert raw.ending == "broken"
    assert not raw.content.endswith(b"\n\n")


def test_nobody_listening_is_refused() -> None:
    async def run(server: FakeServer) -> Raw:
        await server.stop()
        return await Call(server.base_url, exchange("a", "/plain"), no_look).run()

    raw, _ = with_server(run)

    assert raw == Raw("refused", None, {}, b"")


@pytest.mark.parametrize(
    ("path", "load", "ending", "timed"),
    [
        ("/silent", STUCK, "silent", False),
        ("/silent", BUSY, "unanswered", True),
        ("/silent", IDLE, "unanswered", False),
        ("/silent", None, "unanswered", True),
        ("/head_only", STUCK, "unanswered", False),
        ("/endless", BUSY, "unanswered", True),
    ],
)
def test_at_the_deadline_the_load_decides(path: str, load: Load | None, ending: str, timed: bool) -> None:
    begun = time.monotonic()
    raw, server = play(exchange("a", path, deadline=0.2), load)

    assert (raw.ending, raw.timed) == (ending, timed)
    assert server.gone == [path]
    assert time.monotonic() - begun < 5


def test_an_answer_that_is_due_and_does_not_come_fails_the_play(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIMIT", 0.2)

    with pytest.raises(PlayFailed, match=r"exchange a: no whole answer within 0.2 s"):
        play(exchange("a", "/silent"))


def test_a_client_leaves_after_so_many_frames() -> None:
    raw, server = play(exchange("a", "/endless", leave_after=3))

    assert (raw.ending, raw.status, raw.timed) == ("left", 200, True)
    assert raw.content.count(b"\n\n") == 3
    assert server.gone == ["/endless"]


def test_a_stream_that_ends_before_is_not_left() -> None:
    raw, _ = play(exchange("a", "/stream", leave_after=9))

    assert raw.ending == "answered"


@pytest.mark.parametrize("path", ["/silent", "/endless"])
def test_a_client_that_is_told_to_leave_closes_its_socket_at_once(path: str) -> None:
    async def run(server: FakeServer) -> Raw:
        call = Call(server.base_url, exchange("a", path), no_look)
        running = asyncio.create_task(call.run())
        await asyncio.sleep(0.2)
        assert server.gone == []
        call.leave()
        return await running

    raw, server = with_server(run)

    assert raw.ending == "left"
    assert server.gone == [path]


@pytest.mark.parametrize(("path", "comes"), [("/plain", True), ("/endless", True), ("/head_only", False)])
def test_first_is_a_frame_or_a_byte_and_no_status_line(path: str, comes: bool) -> None:
    async def run(server: FakeServer) -> Raw:
        call = Call(server.base_url, exchange("a", path), no_look)
        running = asyncio.create_task(call.run())
        await asyncio.sleep(0.3)
        assert call.first.is_set() is comes
        call.leave()
        raw = await running
        assert call.first.is_set()
        return raw

    with_server(run)


@pytest.mark.parametrize(
    ("path", "headers"),
    [("/pl ain\x00", {}), ("/plain", {"x": "a\nb"}), ("/plain", {"x y": "1"}), ("/plain", {"x": "é\u4e2d"})],
)
def test_what_cannot_be_sent_fails_the_play_in_one_line(path: str, headers: dict[str, str]) -> None:
    with pytest.raises(PlayFailed, match="exchange a cannot be sent"):
        play(exchange("a", path, headers=headers))


def test_an_answer_without_end_fails_the_play_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CONTENT", 1 << 20)
    monkeypatch.setattr(FakeServer, "on_plain", flood)

    with pytest.raises(PlayFailed, match=r"exchange a: the answer is longer than 1 MiB"):
        play(exchange("a", "/plain"))


async def flood(self: FakeServer, write: Write) -> None:  # noqa: ARG001
    await write(STREAM)
    while True:
        await write(chunk(b"x" * 65_536))

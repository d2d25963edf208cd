"""A raw HTTP server over asyncio streams whose every path has one vice; `/metrics` and `/health` say what the test sets.

It runs in the test's own event loop. `gone` holds the paths whose client closed its socket before the answer ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from parity.observation import Ended

Write = Callable[[bytes], Awaitable[None]]
STREAM = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def token(text: str, finish: str = "null", id: str = "cmpl-0123456789abcdef") -> bytes:
    return b'data: {"id":"%s","created":%d,"choices":[{"index":0,"text":"%s","finish_reason":%s}]}\n\n' % (
        id.encode(),
        time.time(),
        text.encode(),
        finish.encode(),
    )


def whole(
    body: bytes, kind: bytes = b"application/json", status: bytes = b"200 OK", more: bytes = b""
) -> bytes:
    return b"HTTP/1.1 %s\r\ncontent-type: %s\r\ncontent-length: %d\r\n%s\r\n%s" % (
        status,
        kind,
        len(body),
        more,
        body,
    )


class FakeServer:
    """A Target over vices. `running` and `waiting` are what `/metrics` tells; `lives` what `alive` says."""

    model = "/models/fake"

    def __init__(self) -> None:
        self.base_url = ""
        self.running = 0
        self.waiting = 0
        self.cache = 0.0
        self.preemptions = 0
        self.health = b"200 OK"
        self.lives = True
        self.signals: list[str] = []
        self.requests: list[bytes] = []
        self.gone: list[str] = []
        self.release = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    def alive(self) -> bool:
        return self.lives

    def signal(self, name: str) -> None:
        self.signals.append(name)
        self.release.set()

    def wait(self, seconds: float) -> Ended:
        assert seconds > 0
        return Ended(state="exited", code=0, orphans=0)

    def last_words(self) -> str:
        return "out of cheese"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.base_url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Takes no connection any more; those that are open go on."""
        assert self._server is not None
        self._server.close()

    async def settled(self) -> None:
        """Every connection has ended."""
        async with asyncio.timeout(5):
            while self._serving:
                await asyncio.wait(self._serving)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            path = await self._read_request(reader)
            await self._answer(path, reader, writer)
        with contextlib.suppress(ConnectionError):
            writer.close()
            await writer.wait_closed()

    async def _read_request(self, reader: asyncio.StreamReader) -> str:
        head = await reader.readuntil(b"\r\n\r\n")
        length = [
            int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
        ]
        body = await reader.readexactly(length[0]) if length else b""
        path = head.split(b" ")[1].decode()
        if path not in ("/health", "/metrics"):
            self.requests.append(head + body)
        return path

    async def _answer(self, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        leaving = asyncio.ensure_future(reader.read())

        async def write(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        vice: Callable[[Write], Awaitable[None]] = getattr(self, "on_" + path.strip("/").partition("?")[0])
        answering = asyncio.ensure_future(vice(write))
        await asyncio.wait({leaving, answering}, return_when=asyncio.FIRST_COMPLETED)
        if leaving.done() and not answering.done():
            self.gone.append(path)
        leaving.cancel()
        answering.cancel()
        await asyncio.gather(leaving, answering, return_exceptions=True)

    async def on_health(self, write: Write) -> None:
        await write(whole(b"", status=self.health))

    async def on_metrics(self, write: Write) -> None:
        text = (
            f'# HELP x y\nvllm:num_requests_running{{engine="0"}} {self.running}.0\n'
            f'vllm:num_requests_waiting{{engine="0"}} {self.waiting}.0\n'
            f'vllm:num_requests_waiting_by_reason{{engine="0",reason="capacity"}} {self.waiting}.0\n'
            f'vllm:kv_cache_usage_perc{{engine="0"}} {self.cache}\n'
            f'vllm:num_preemptions_total{{engine="0"}} {self.preemptions}.0\n'
        )
        await write(whole(text.encode(), b"text/plain"))

    async def on_plain(self, write: Write) -> None:
        await write(
            whole(
                b'{"id":"cmpl-%032x","created":%d}' % (len(self.requests), time.time()),
                more=b"Allow: GET\r\nX-Other: 1\r\n",
            )
        )

    async def on_silent(self, write: Write) -> None:  # noqa: ARG002
        await asyncio.sleep(60)

    async def on_head_only(self, write: Write) -> None:
        await write(STREAM)
        await asyncio.sleep(60)

    async def on_broken_before(self, write: Write) -> None:
        """Closes without a byte."""

    async def on_garbage(self, write: Write) -> None:
        await write(b"hello, this is no HTTP\r\n\r\n")

    async def on_broken_body(self, write: Write) -> None:
        await write(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{"a": ')

    async def on_broken_frame(self, write: Write) -> None:
        await write(STREAM + chunk(token("a") + token("b")[:45]))

    async def on_stream(self, write: Write) -> None:
        """In chunks of seven bytes, which are no frames."""
        frames = token("a") + token("b") + token("c", '"length"') + b"data: [DONE]\n\n"
        await write(STREAM)
        for at in range(0, len(frames), 7):
            await write(chunk(frames[at : at + 7]))
        await write(chunk(b""))

    async def on_no_done(self, write: Write) -> None:
        await write(STREAM + chunk(token("a", '"stop"')) + chunk(b""))

    async def on_two_dones(self, write: Write) -> None:
        await write(STREAM + chunk(token("a", '"stop"') + b"data: [DONE]\n\n" * 2) + chunk(b""))

    async def on_comments(self, write: Write) -> None:
        await write(STREAM)
        for frame in (token("a"), b": still here\n\n", token("b", '"stop"'), b"data: [DONE]\n\n"):
            await write(chunk(frame))
        await write(chunk(b""))

    async def on_no_json(self, write: Write) -> None:
        await write(
            STREAM + chunk(b"data: {oh\n\n" + token("a", '"stop"') + b"data: [DONE]\n\n") + chunk(b"")
        )

    async def on_endless(self, write: Write) -> None:
        await write(STREAM)
        while True:
            await write(chunk(token("a")))
            await asyncio.sleep(0.01)

    async def on_slow(self, write: Write) -> None:
        """Answers when it is released, or signalled."""
        await self.release.wait()
        await write(whole(b'{"late": true}'))

    async def on_aborted(self, write: Write) -> None:
        await self.release.wait()
        body = b'{"choices":[{"index":0,"text":"abc","finish_reason":"abort"}],"usage":{"prompt_tokens":1,"completion_tokens":3}}'
        await write(whole(body))

    async def on_closing(self, write: Write) -> None:
        """The last connection that the server takes."""
        await self.stop()
        await write(whole(b"{}"))

    async def on_away(self, write: Write) -> None:
        """Takes no connection from now on, and again after a moment."""
        await self.stop()
        self._serving.add(asyncio.create_task(self._back()))
        await write(whole(b"{}"))

    async def _back(self) -> None:
        await asyncio.sleep(0.2)
        port = int(self.base_url.rpartition(":")[2])
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        task = asyncio.current_task()
        assert task is not None
        self._serving.discard(task)

    async def on_dies(self, write: Write) -> None:
        self.lives = False
        await write(STREAM + chunk(token("a")))


@contextlib.asynccontextmanager
async def fake_server() -> AsyncIterator[FakeServer]:
    server = FakeServer()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
        await server.settled()

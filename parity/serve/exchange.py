"""One HTTP exchange over a connection of its own: what goes out is exact, what comes back is kept as it came.

Every wait is bounded. Whatever ends the exchange, its socket is closed when `Call.run` returns: a server notices
that a client has gone by nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import httpx
import msgspec

from parity.scenario import Exchange
from parity.serve.metrics import Load
from parity.serve.sse import FrameReader
from parity.serve.target import PlayFailed

LIMIT = 120.0  # seconds for an answer that is expected to come
MAX_CONTENT = 64 * 1024 * 1024  # bytes of an answer; one that is longer can be neither held nor compared
HOLD = (
    0.25  # seconds that a client stays on after it gave up: others with the same deadline see the same server
)
STREAM = "text/event-stream"

Ending = Literal["answered", "silent", "unanswered", "broken", "refused", "left"]
Look = Callable[[], Awaitable[Load | None]]


class Raw(msgspec.Struct, frozen=True):
    """What came back: `status` is null before a status line, `headers` are by lower-case name, `content` is the body.

    `timed` tells that how much came is a matter of time, and not of what the server does.
    """

    ending: Ending
    status: int | None
    headers: dict[str, str]
    content: bytes
    timed: bool = False

    @property
    def is_stream(self) -> bool:
        return is_stream(self.headers)


def is_stream(headers: dict[str, str]) -> bool:
    return headers.get("content-type", "").partition(";")[0].strip().lower() == STREAM


class Call:
    """An exchange under way. `first` is set with its first data frame (of a stream) or byte, and with its end.

    `look` reads the server's load, null when it cannot be read.
    """

    def __init__(self, base_url: str, exchange: Exchange, look: Look) -> None:
        self.exchange = exchange
        self.first = asyncio.Event()
        self._base_url = base_url
        self._look = look
        self._leaving = asyncio.Event()
        self._status: int | None = None
        self._headers: dict[str, str] = {}
        self._content = bytearray()
        self._reader = FrameReader()

    def leave(self) -> None:
        """The client hangs up, if the answer has not ended before."""
        self._leaving.set()

    async def run(self) -> Raw:
        """Play the exchange to its end. Raises PlayFailed when an answer without a deadline does not come."""
        receiving = asyncio.ensure_future(self._receive())
        leaving = asyncio.ensure_future(self._leaving.wait())
        try:
            await asyncio.wait(
                {receiving, leaving},
                timeout=self.exchange.deadline or LIMIT,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if receiving.done():
                ending = receiving.result()
                return self._raw(ending, timed=ending == "left")
            if leaving.done():
                return self._raw("left", timed=True)
            return await self._given_up()
        finally:
            await _ended(receiving, leaving)
            self.first.set()

    async def _given_up(self) -> Raw:
        if self.exchange.deadline is None:
            raise PlayFailed(f"exchange {self.exchange.id}: no whole answer within {LIMIT:g} s")
        load = await self._look()
        silent = self._status is None and load is not None and load.stuck
        raw = self._raw("silent" if silent else "unanswered", timed=load is None or load.running > 0)
        await asyncio.sleep(HOLD)
        return raw

    def _raw(self, ending: Ending, *, timed: bool) -> Raw:
        return Raw(ending, self._status, self._headers, bytes(self._content), timed)

    async def _receive(self) -> Ending:
        transport = httpx.AsyncHTTPTransport(verify=False, trust_env=False)
        async with httpx.AsyncClient(transport=transport, timeout=None, trust_env=False) as client:
            try:
                response = await client.send(self._request(client), stream=True)
                return await self._read(response)
            except httpx.ConnectError:
                return "refused"
            except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError) as error:
                raise PlayFailed(f"exchange {self.exchange.id} cannot be sent: {error}") from error
            except httpx.TransportError:
                return "broken"

    async def _read(self, response: httpx.Response) -> Ending:
        self._status = response.status_code
        self._headers = {name.lower(): value for name, value in response.headers.items()}
        stream = is_stream(self._headers)
        async for chunk in response.aiter_raw():
            if len(self._content) + len(chunk) > MAX_CONTENT:
                raise PlayFailed(
                    f"exchange {self.exchange.id}: the answer is longer than {MAX_CONTENT >> 20} MiB"
                )
            self._content += chunk
            if stream:
                self._reader.feed(chunk)
            if self._reader.data_frames or not stream:
                self.first.set()
            if (
                self.exchange.leave_after is not None
                and self._reader.data_frames >= self.exchange.leave_after
            ):
                return "left"
        return "answered"

    def _request(self, client: httpx.AsyncClient) -> httpx.Request:
        """Only what the scenario says goes out, and what HTTP itself needs (host, content-length)."""
        content = self.exchange.content
        try:
            request = client.build_request(
                self.exchange.method,
                self._base_url + self.exchange.path,
                headers=self.exchange.headers,
                content=None if content is None else content.encode(),
            )
        except ValueError as error:
            raise PlayFailed(f"exchange {self.exchange.id} cannot be sent: {error}") from error
        given = {name.lower() for name in self.exchange.headers}
        for name in ("accept", "accept-encoding", "user-agent", "connection"):
            if name not in given:
                request.headers.pop(name, None)
        return request


async def _ended(*tasks: asyncio.Future[Any]) -> None:
    """Cancel what still runs and wait until it has cleaned up."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)

"""Server-sent events, and what happens when the client goes away before its answer is complete.

Frames are `data: JSON` and a blank line; every stream ends with one `[DONE]`. What fails after the response has
begun is told in a frame. Whoever produces the answer is cancelled as soon as the client has gone, also while there
is nothing to send.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

import msgspec
from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from engine.generation import TextOutput
from engine.sampling import RequestRefused
from engine.server.errors import Refused, as_refused, internal
from engine.server.flights import Flight, joined

logger = logging.getLogger("nullblock.server")
T = TypeVar("T")
DONE = b"data: [DONE]\n\n"
LINE_BREAKS = tuple((chr(code).encode(), b"\\u%04x" % code) for code in (0x85, 0x2028, 0x2029))
CLIENT_GONE = 499  # what the access log shows for a client that did not wait; nobody receives it


def frame(value: object) -> bytes:
    """One event. Line breaks of Unicode are escaped: many clients split lines at them, and would cut the JSON."""
    data = msgspec.json.encode(value)
    for character, escaped in LINE_BREAKS:
        if character in data:
            data = data.replace(character, escaped)
    return b"data: " + data + b"\n\n"


async def closed_stream(chunks: AsyncIterator[msgspec.Struct]) -> AsyncIterator[bytes]:
    """Chunks as frames, then `[DONE]`; a failure becomes the last frame before it."""
    try:
        async for chunk in chunks:
            yield frame(chunk)
    except Refused as error:
        yield frame(error.body())
    except Exception as error:
        logger.exception("a stream failed")
        yield frame(internal(f"the server failed on this request: {type(error).__name__}").body())
    yield DONE


async def paced(pieces: AsyncIterator[TextOutput], interval: int) -> AsyncIterator[TextOutput]:
    """Join outputs of a choice until there are `interval` tokens; its first and last ones are not held."""
    held: dict[int, TextOutput] = {}
    started: set[int] = set()
    async for piece in pieces:
        before = held.pop(piece.index, None)
        output = piece if before is None else joined(before, piece)
        ready = piece.finish_reason is not None or len(output.token_ids) >= interval
        if ready or piece.index not in started:
            started.add(piece.index)
            yield output
        else:
            held[piece.index] = output


def streamed(
    prepare: Callable[[], Flight], chunks: Callable[[Flight], AsyncIterator[msgspec.Struct]]
) -> EventStream:
    """A flight's chunks as a stream. What only the engine's side refuses comes as its one frame, as upstream's does."""
    try:
        flight = prepare()
    except RequestRefused as error:
        return EventStream(_refusal(as_refused(error)), nullcontext())
    return EventStream(closed_stream(chunks(flight)), flight)


async def _refusal(refused: Refused) -> AsyncIterator[bytes]:
    yield frame(refused.body())
    yield DONE


class EventStream(Response):
    """A response of frames that ends with its client; the status line goes out before the first frame is there.

    `place` is entered before that: what it raises becomes the response in the stream's stead.
    """

    media_type = "text/event-stream"

    def __init__(self, frames: AsyncIterator[bytes], place: AbstractContextManager[object]) -> None:
        super().__init__()
        self._frames = frames
        self._place = place
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        with self._place:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await until_gone(receive, self._pump(send))

    async def _pump(self, send: Send) -> None:
        async for data in self._frames:
            await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def answered(request: Request, work: Coroutine[object, object, Response]) -> Response:
    """The response that `work` makes, unless the client goes away first: then `work` is cancelled."""
    response = await until_gone(request.receive, work)
    return Response(status_code=CLIENT_GONE) if response is None else response


async def until_gone(receive: Receive, work: Coroutine[object, object, T]) -> T | None:
    """The result of `work`, or null when the client had gone before; `work` has ended either way."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        leaving.cancel()
        working.cancel()
        await asyncio.wait({working, leaving})


async def _gone(receive: Receive) -> None:
    """Returns when the client has closed the connection. The body has been read by then."""
    while (await receive())["type"] != "http.disconnect":
        pass

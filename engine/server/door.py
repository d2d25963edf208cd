"""Requests whose body is still on its way when the server starts to end: they are answered, not waited for.

The outermost layer. Without it such a request would hold up the end until the HTTP server gives it up, with an
answer that is none of ours.
"""

from __future__ import annotations

import asyncio

from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.server.errors import shutting_down
from engine.server.flights import Flights

ARRIVAL_SECONDS = 0.5  # less than open connections have to read what they were sent


class Door:
    """ASGI middleware. Once `flights` takes nothing new a body has ARRIVAL_SECONDS to come; its sender then gets 503."""

    def __init__(self, app: ASGIApp, flights: Flights) -> None:
        self._app = app
        self._flights = flights
        self._arriving: set[asyncio.Task[object]] = set()
        self._turned_away: set[asyncio.Task[object]] = set()
        flights.when_closing(self._close)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        if scope["type"] == "http" and scope["method"] == "POST" and task is not None:
            await self._watched(task, scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _watched(self, task: asyncio.Task[object], scope: Scope, receive: Receive, send: Send) -> None:
        async def noting() -> Message:
            message = await receive()
            if not message.get("more_body", False):
                self._arriving.discard(task)
            return message

        async def answering(message: Message) -> None:
            self._arriving.discard(task)
            await send(message)

        self._arriving.add(task)
        if self._flights.closing:
            self._watch(task)
        try:
            await self._app(scope, noting, answering)
        except asyncio.CancelledError:
            if task not in self._turned_away:
                raise
            task.uncancel()
            refused = shutting_down()
            answer = JSONResponse(refused.body(), refused.status, {"connection": "close"})
            await answer(scope, receive, send)
        finally:
            self._arriving.discard(task)
            self._turned_away.discard(task)

    def _close(self) -> None:
        for task in self._arriving:
            self._watch(task)

    def _watch(self, task: asyncio.Task[object]) -> None:
        asyncio.get_running_loop().call_later(ARRIVAL_SECONDS, self._turn_away, task)

    def _turn_away(self, task: asyncio.Task[object]) -> None:
        """End a request of which nothing but a part of its body is known: it waits for more, and has sent nothing."""
        if task in self._arriving:
            self._turned_away.add(task)
            task.cancel()

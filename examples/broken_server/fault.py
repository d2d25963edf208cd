"""One fault around a server that has none: `/health` answers 503 while a request has waited for its first byte.

A middleware of ASGI, which upstream's server takes with `--middleware`. It looks like a kindness to a load balancer; a
server that mirrors upstream promises the contrary: the process serves, whoever waits.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

PATIENCE = 0.25  # seconds without a byte; a request of the small models that is served takes less


class UnhealthyWhileStuck:
    """The application behind the fault. `_waiting` has the time of arrival of each request without a byte."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._waiting: dict[int, float] = {}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if path == "/health" and self._is_anybody_stuck():
            await send({"type": "http.response.start", "status": 503, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})
        elif path.startswith("/v1/"):
            await self._watched(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _is_anybody_stuck(self) -> bool:
        now = time.monotonic()
        return any(now - arrived > PATIENCE for arrived in self._waiting.values())

    async def _watched(self, scope: Message, receive: Receive, send: Send) -> None:
        request = id(scope)
        self._waiting[request] = time.monotonic()

        async def seen(message: Message) -> None:
            self._waiting.pop(request, None)
            await send(message)

        try:
            await self._app(scope, receive, seen)
        finally:
            self._waiting.pop(request, None)

"""`nullblock serve` with one fault planted in what goes out: `changed_server.py FAULT serve MODEL …`.

What a port gets wrong without noticing: each of these must turn a run red.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

from engine.cli import main as command
from engine.server import app

Message = dict[str, Any]
DONE = b"data: [DONE]\n\n"
HEARTBEAT = b": heartbeat\n\n"


def logprob(body: dict[str, Any]) -> None:
    """The first token's log probability, off by 1e-3."""
    for choice in body["choices"]:
        if choice["logprobs"] is not None:
            choice["logprobs"]["token_logprobs"][-1] -= 1e-3


def usage(body: dict[str, Any]) -> None:
    body["usage"]["completion_tokens"] += 1
    body["usage"]["total_tokens"] += 1


BODIES: dict[str, Callable[[dict[str, Any]], None]] = {"logprob": logprob, "usage": usage}


class Changed:
    """The application behind an ASGI layer that plants the fault."""

    def __init__(self, inner: Any, fault: str) -> None:
        self._inner = inner
        self._fault = fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or not scope["path"].startswith("/v1/"):
            await self._inner(scope, receive, send)
            return
        start: Message = {}
        is_stream = False
        body = b""
        beat: asyncio.Task[None] | None = None

        async def beats() -> None:
            while True:
                await send({"type": "http.response.body", "body": HEARTBEAT, "more_body": True})
                await asyncio.sleep(1.0)

        async def changed(message: Message) -> None:
            nonlocal start, is_stream, body, beat
            if message["type"] == "http.response.start":
                start = message
                kind = dict(message["headers"]).get(b"content-type", b"")
                is_stream = kind.startswith(b"text/event-stream")
                if self._fault == "status" and message["status"] == 400:
                    message["status"] = 422
                if is_stream:
                    await send(message)
                    if self._fault == "comment":
                        beat = asyncio.create_task(beats())
                return
            piece = message.get("body", b"")
            if is_stream:
                if self._fault == "done":
                    piece = piece.replace(DONE, b"")
                await send({**message, "body": piece})
                return
            body += piece
            if not message.get("more_body", False):
                await self._whole(start, body, send)

        try:
            await self._inner(scope, receive, changed)
        finally:
            if beat is not None:
                beat.cancel()

    async def _whole(self, start: Message, body: bytes, send: Any) -> None:
        change = BODIES.get(self._fault)
        if change is not None and start["status"] == 200 and b'"choices"' in body:
            value = json.loads(body)
            change(value)
            body = json.dumps(value).encode()
        headers = [(key, value) for key, value in start["headers"] if key != b"content-length"]
        headers.append((b"content-length", str(len(body)).encode()))
        await send({**start, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def main() -> int:
    fault, *arguments = sys.argv[1:]
    create = app.create_app
    app.create_app = lambda *given, **named: Changed(create(*given, **named), fault)  # type: ignore[assignment]
    return command.main(arguments)


if __name__ == "__main__":
    sys.exit(main())

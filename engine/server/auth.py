"""The API key: requests below /v1 must carry one that the operator chose; health, metrics and docs need none.

Mirrors vllm/entrypoints/serve/utils/server_utils.py::AuthenticationMiddleware.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence

from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

GUARDED = "/v1"


class KeyGuard:
    """ASGI middleware. Keys are compared by digest, all of them each time, so that time tells nothing."""

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        self._app = app
        self._digests = [_digest(key) for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        guarded = (
            scope["type"] == "http"
            and scope["method"] != "OPTIONS"
            and scope["path"].removeprefix(scope.get("root_path", "")).startswith(GUARDED)
        )
        if guarded and not self._known(Headers(scope=scope).get("authorization", "")):
            await JSONResponse({"error": "Unauthorized"}, 401)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _known(self, header: str) -> bool:
        scheme, _, key = header.partition(" ")
        given = _digest(key)
        matches = [secrets.compare_digest(given, digest) for digest in self._digests]
        return scheme.lower() == "bearer" and any(matches)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()

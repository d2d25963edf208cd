"""The application: routes to handlers, upstream's error shapes around them, keys and cross-origin rules in front."""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any

from fastapi import Body, Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.middleware.cors import CORSMiddleware

from engine.server import errors, metrics
from engine.server.auth import KeyGuard
from engine.server.backend import Backend
from engine.server.chat import chat
from engine.server.completions import complete
from engine.server.door import Door
from engine.server.flights import Flights
from engine.server.requests import (
    ChatBody,
    CompletionBody,
    DetokenizeBody,
)
from engine.server.responses import encode
from engine.server.service import Served, Service
from engine.server.tokenize import TokenizeBody, detokenize, tokenize
from engine.server.worker import size_of

Handler = Callable[..., Awaitable[Response]]


def create_app(
    served: Served,
    backend: Backend,
    flights: Flights,
    keys: Sequence[str] = (),
    cache_info: Mapping[str, str] | None = None,
) -> FastAPI:
    """The server's ASGI application; `keys` are the API keys; where there is none but empty ones, none is needed."""
    app = FastAPI(
        title="nullblock",
        version=served.version,
        description="A minimal paged-KV engine that serves as pinned vLLM does.",
    )
    service = Service(served, backend, flights)
    _add_generation(app, service)
    _add_tokenizer(app, service)
    _add_state(app, service, metrics.EngineMetrics(backend, served.names[0], cache_info or {}))
    errors.install(app)
    app.add_middleware(CORSMiddleware, allow_origins=["*"], allow_methods=["*"], allow_headers=["*"])
    known = [key for key in keys if key]
    if known:
        app.add_middleware(KeyGuard, keys=known)
    app.add_middleware(Door, flights=flights)
    return app


async def _json_only(request: Request) -> None:
    """A body that says that it is something else is refused, as upstream does."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise RequestValidationError(["the content type must be application/json"])


def _post(app: FastAPI, path: str, handler: Handler) -> None:
    app.post(path, dependencies=[Depends(_json_only)], response_model=None)(handler)


def _add_generation(app: FastAPI, service: Service) -> None:
    async def create_completion(body: CompletionBody, request: Request) -> Response:
        """Continue one or more prompts."""
        return await complete(service, body, request)

    async def create_chat_completion(body: ChatBody, request: Request) -> Response:
        """Answer a conversation."""
        return await chat(service, body, request)

    _post(app, "/v1/completions", create_completion)
    _post(app, "/v1/chat/completions", create_chat_completion)


def _add_tokenizer(app: FastAPI, service: Service) -> None:
    async def tokenize_text(body: Annotated[TokenizeBody, Body()], request: Request) -> Response:
        """Token ids of a prompt, or of the prompt that messages become."""
        data = await service.worker.run(await size_of(request), lambda: encode(tokenize(service, body)))
        return Response(data, media_type="application/json")

    async def detokenize_ids(body: DetokenizeBody, request: Request) -> Response:
        """The text of token ids."""
        text = await service.worker.run(await size_of(request), lambda: detokenize(service, body))
        return JSONResponse({"prompt": text})

    _post(app, "/tokenize", tokenize_text)
    _post(app, "/detokenize", detokenize_ids)


def _add_state(app: FastAPI, service: Service, engine: metrics.EngineMetrics) -> None:
    registry = metrics.registry(engine)

    @app.get("/health", response_model=None)
    async def health() -> Response:
        """200 while requests are served, 503 once they are not."""
        return Response(status_code=200 if service.backend.alive else 503)

    for register in (app.get, app.post):
        register("/ping", response_model=None)(health)

    @app.get("/load", response_model=None)
    async def load() -> Response:
        """Requests being served, which upstream counts only where its operator asks for it, and not by default."""
        return JSONResponse({"server_load": 0})

    @app.get("/version", response_model=None)
    async def version() -> Response:
        return JSONResponse({"version": service.served.version})

    @app.get("/v1/models", response_model=None)
    async def models() -> Response:
        cards = [_card(service, name) for name in service.served.names]
        return JSONResponse({"object": "list", "data": cards})

    @app.get("/metrics", response_model=None)
    async def numbers() -> Response:
        """The engine's numbers for Prometheus, under upstream's names."""
        return Response(metrics.exposition(registry), headers={"content-type": metrics.CONTENT_TYPE})

    async def mounted(_request: Request) -> Response:
        return Response(metrics.exposition(registry), headers={"content-type": metrics.PLAIN})

    # Upstream mounts its numbers besides: whatever begins like their path is answered, whatever the method.
    methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]
    app.add_route("/metrics{rest:path}", mounted, methods, include_in_schema=False)


def _card(service: Service, name: str) -> dict[str, Any]:
    now = int(time.time())
    permission = {
        "id": f"modelperm-{secrets.token_hex(8)}",
        "object": "model_permission",
        "created": now,
        "allow_create_engine": False,
        "allow_sampling": True,
        "allow_logprobs": True,
        "allow_search_indices": False,
        "allow_view": True,
        "allow_fine_tuning": False,
        "organization": "*",
        "group": None,
        "is_blocking": False,
    }
    return {
        "id": name,
        "object": "model",
        "created": now,
        "owned_by": "nullblock",
        "root": service.served.root,
        "parent": None,
        "max_model_len": service.backend.max_model_len,
        "permission": [permission],
    }

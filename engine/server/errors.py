"""What a client is told when a request cannot be served: upstream's status, `type`, `param` and `code`, our own words.

Refused is raised wherever a request turns out to be unservable; this module alone knows how it looks on the wire.
It is no ValueError on purpose: the body validators raise it, and pydantic would swallow a ValueError into its own.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from engine.sampling import RequestRefused

logger = logging.getLogger("nullblock.server")

# Names that pydantic puts into a location for the branch of a union; a client knows only fields and indices.
_BRANCH = re.compile(r"[\[\](){}]")
_BRANCH_WORDS = frozenset(
    {
        "str",
        "int",
        "float",
        "bool",
        "list",
        "dict",
        "none",
        "nullable",
        "tokenizepromptbody",
        "tokenizechatbody",
    }
)


class Refused(Exception):
    """A request that gets `status` and no tokens; `param` names the field at fault where upstream names it."""

    def __init__(
        self,
        message: str,
        param: str | None = None,
        *,
        status: HTTPStatus = HTTPStatus.BAD_REQUEST,
        kind: str = "BadRequestError",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.status = status
        self.kind = kind

    def body(self) -> dict[str, Any]:
        """The error object that goes out, in a response or in a stream's frame."""
        return {
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": self.param,
                "code": int(self.status),
            }
        }


def invalid_body(message: str, param: str | None) -> Refused:
    """A body that is not what its fields' types say; upstream's `type` differs from that of a refused value."""
    return Refused(message, param, kind="Bad Request")


def unknown_model(name: str) -> Refused:
    """Upstream repeats the name in its answer; one that cannot be written as UTF-8 fails there, as a bad request."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return Refused("the model's name has half a character in it")
    return Refused(
        f"no model named {name!r} is served here; GET /v1/models lists those that are",
        "model",
        status=HTTPStatus.NOT_FOUND,
        kind="NotFoundError",
    )


def internal(message: str) -> Refused:
    """A request that failed through no fault of the client's."""
    return Refused(message, status=HTTPStatus.INTERNAL_SERVER_ERROR, kind="InternalServerError")


def shutting_down() -> Refused:
    """A request that came after a signal; upstream has closed its socket by then, so there is nothing to mirror."""
    return Refused(
        "the server is shutting down",
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        kind="ServiceUnavailableError",
    )


def as_refused(error: RequestRefused) -> Refused:
    return Refused(str(error), error.param)


def param_of(location: Sequence[object]) -> str:
    """A pydantic location as a dotted path, without the names of union branches."""
    parts = [str(part) for part in location]
    known = [part for part in parts if not _BRANCH.search(part) and part.lower() not in _BRANCH_WORDS]
    return ".".join(known or parts)


def install(app: FastAPI) -> None:
    """Give `app` one handler for each way in which a request can fail."""

    async def refused(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, Refused)
        return JSONResponse(error.body(), error.status)

    async def refused_by_engine(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestRefused)
        return JSONResponse(as_refused(error).body(), HTTPStatus.BAD_REQUEST)

    async def invalid(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return JSONResponse(_from_validation(error.errors()).body(), HTTPStatus.BAD_REQUEST)

    async def raised(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        phrase = HTTPStatus(error.status_code).phrase
        refusal = Refused(str(error.detail), status=HTTPStatus(error.status_code), kind=phrase)
        return JSONResponse(refusal.body(), error.status_code)

    async def fault(request: Request, error: Exception) -> JSONResponse:
        logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return JSONResponse(internal("the server failed on this request; its log says why").body(), 500)

    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(RequestRefused, refused_by_engine)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, raised)
    app.add_exception_handler(Exception, fault)


def _from_validation(errors: Sequence[Any]) -> Refused:
    """The first thing wrong with a body names the param; all of them are in the message."""
    if not errors or not isinstance(errors[0], dict):
        return invalid_body("; ".join(str(error) for error in errors) or "the body is not valid", None)
    lines = [f"{param_of(error['loc'])}: {error['msg']}" for error in errors]
    return invalid_body("; ".join(lines[:8]), param_of(errors[0]["loc"]))

"""The life of the server: a socket before the model, signals once it serves, and an end that always comes.

Before it serves, a signal ends the process with 0 at once (engine/cli/signals.py). Afterwards:
1. The first SIGTERM or SIGINT: nothing new takes off. With a shutdown timeout what is in flight may land first.
2. What is still in flight is aborted; every client gets its answer, with the finish reason `abort`.
3. The HTTP server closes, the engine stops, the process exits with 0.
A second signal ends the process at once. No step waits for a client or for the engine without a bound.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import NoReturn

import uvicorn
from fastapi import FastAPI

from engine.errors import StartupError, UsageError
from engine.server.flights import Flights

logger = logging.getLogger("nullblock.server")
SIGNALS = (signal.SIGTERM, signal.SIGINT)
MOST_HEADER_BYTES = 4 * 1024 * 1024  # as H11_MAX_INCOMPLETE_EVENT_SIZE_DEFAULT of the mirrored version
LINGER_SECONDS = 2  # how long open connections may take to read what they were sent


def bind(host: str, port: int) -> socket.socket:
    """A socket that holds the address; it does not listen yet, so that nobody waits for a server that is loading.

    Nobody else can hold the address meanwhile, another server that is loading included: two sockets that both allow
    its reuse could be bound at once until one of them listens, so this one allows it only if connections of an
    earlier server still linger there. Raises UsageError for an address that cannot exist and StartupError for one that is taken or forbidden.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise UsageError(f"--host {host} is no address of this machine", hint="try 127.0.0.1") from error
    held = socket.socket(family, kind)
    try:
        try:
            held.bind(address)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(address)
    except OSError as error:
        held.close()
        raise _address_error(error, host, port) from error
    return held


def _address_error(error: OSError, host: str, port: int) -> StartupError:
    if error.errno == errno.EADDRINUSE:
        return StartupError(
            f"port {port} of {host} is in use", hint="end what uses it, or give another --port"
        )
    return StartupError(
        f"cannot listen on {host}:{port}: {error.strerror}", hint="give another --host or --port"
    )


class _Uvicorn(uvicorn.Server):
    """uvicorn without signal handlers: it would exit by the signal, and wait for clients without telling them."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Life:
    """Serves `app` on `held` until a signal comes; `shutdown_timeout` in seconds is for what is in flight then."""

    def __init__(
        self, app: FastAPI, held: socket.socket, flights: Flights, shutdown_timeout: float, access_log: bool
    ) -> None:
        self._flights = flights
        self._held = held
        self._timeout = shutdown_timeout
        self._ending: asyncio.Task[None] | None = None
        self._http = _Uvicorn(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=access_log,
                lifespan="off",
                timeout_graceful_shutdown=LINGER_SECONDS,
                h11_max_incomplete_event_size=MOST_HEADER_BYTES,
            )
        )

    async def run(self, ready: Callable[[], None]) -> None:
        """Returns when the HTTP server has closed. Raises StartupError when it could not open."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)
        try:
            self._held.listen(2048)
            # For the next server: what lingers of connections to this one shall not keep it from the address.
            self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        except OSError as error:
            host, port = self._held.getsockname()[:2]
            raise _address_error(error, host, port) from error
        loop.call_soon(ready)
        await self._http.serve(sockets=[self._held])
        if self._ending is not None:
            await self._ending

    def _on_signal(self, number: int) -> None:
        name = signal.Signals(number).name
        if self._ending is not None:
            logger.warning("%s again: ending at once", name)
            exit_now(128 + number)
        logger.info("%s: shutting down, %d requests in flight", name, len(self._flights))
        self._ending = asyncio.ensure_future(self._end())

    async def _end(self) -> None:
        self._flights.refuse_new()
        if self._timeout > 0 and not await self._flights.drained(self._timeout):
            logger.warning("%d requests did not finish in %g s", len(self._flights), self._timeout)
        await self._flights.abort_all()
        self._http.should_exit = True


def exit_now(code: int) -> NoReturn:
    """End the process without waiting for any thread or library: unloading torch alone takes seconds on a busy machine."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

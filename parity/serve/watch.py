"""What the operator's side sees while a script is played: `/health`, and the load that `/metrics` tells.

Each look is a connection of its own and bounded, so that watching holds no connection open when the server is
told to stop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import httpx
import msgspec

from parity.serve.metrics import Load, MetricsUnreadable, parse
from parity.serve.target import PlayFailed

HEALTH_EVERY = 0.25  # seconds
LOAD_EVERY = 0.05  # seconds
PATIENCE = 10.0  # seconds for one look on a busy machine
NO_ANSWER = 0


class Sight(msgspec.Struct, frozen=True):
    """Where the operator can look: at `/health`, and at the `load` that `/metrics` tells. Elsewhere nobody does."""

    health: bool = True
    load: bool = True


WHOLE = Sight()


class Watch:
    """Looks at one server. `health` are the distinct statuses seen so far, 0 for none."""

    def __init__(self, base_url: str, sight: Sight) -> None:
        self.health: set[int] = set()
        self._base_url = base_url
        self._sight = sight
        self._polling: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """The first look at `/health`, then one every HEALTH_EVERY seconds until `end`."""
        if not self._sight.health:
            return
        self.health.add(await self._health())
        self._polling = asyncio.create_task(self._poll())

    async def end(self) -> None:
        """No more looks at `/health`; one under way does not count."""
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.wait({self._polling})
            self._polling = None

    async def load(self) -> Load | None:
        """The load now, null where `/metrics` gives none or is not looked at. Raises PlayFailed for one without it."""
        response = await self._get("/metrics") if self._sight.load else None
        if response is None or response.status_code != 200:
            return None
        try:
            return parse(response.text)
        except MetricsUnreadable as error:
            raise PlayFailed(f"{error}: the level needs it") from error

    async def until(
        self, holds: Callable[[Load], bool], within: float, *, give_up: Callable[[], bool]
    ) -> Load | None:
        """The first load that `holds`, or null when there was none in time or `give_up` came true."""
        end = time.monotonic() + within
        while True:
            load = await self.load()
            if load is not None and holds(load):
                return load
            if time.monotonic() >= end or give_up():
                return None
            await asyncio.sleep(LOAD_EVERY)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(HEALTH_EVERY)
            self.health.add(await self._health())

    async def _health(self) -> int:
        response = await self._get("/health")
        return NO_ANSWER if response is None else response.status_code

    async def _get(self, path: str) -> httpx.Response | None:
        transport = httpx.AsyncHTTPTransport(verify=False, trust_env=False)
        async with httpx.AsyncClient(transport=transport, trust_env=False, timeout=PATIENCE) as client:
            try:
                async with asyncio.timeout(PATIENCE):
                    return await client.get(self._base_url + path, headers={"connection": "close"})
            except (httpx.TransportError, httpx.DecodingError, TimeoutError):
                return None

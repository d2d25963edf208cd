"""Plays a script against a running server, as its clients and its operator would, and says what they saw.

It never ends the server. Every wait is bounded, and every client is gone when `play` returns or raises.
"""

from __future__ import annotations

import asyncio
import math
import time

import msgspec

from parity.observation import After, Answer, Ended, Serve
from parity.scenario import (
    Action,
    AtOnce,
    Await,
    Exchange,
    Exit,
    Leave,
    Open,
    Pause,
    Send,
    ServeScenario,
    Signal,
    Until,
)
from parity.serve import canonical
from parity.serve.exchange import Call, Raw
from parity.serve.metrics import Load
from parity.serve.target import PlayFailed, Target, own_end
from parity.serve.watch import LOAD_EVERY, WHOLE, Sight, Watch

SETTLE = 10.0  # seconds in which a server must be idle after its last client went
DYING = 1.0  # seconds in which a server that broke a connection shows that it is ending


async def play(scenario: ServeScenario, target: Target, sight: Sight = WHOLE) -> Serve:
    """Play the script once. Raises PlayFailed where the server died, or an answer that is due does not come.

    What is out of `sight` stays as if nothing had been there: whoever compares leaves it out on both sides.
    """
    playing = _Playing(scenario, target, sight)
    try:
        return await playing.play()
    except PlayFailed:
        await playing.check_alive()
        raise
    finally:
        await playing.close()


class _Client:
    """A call and the task that plays it. `awaited`: the script waited for its first frame; `ended_at` by the clock."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.ended_at = math.inf
        self.awaited = False
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> Raw:
        raw = await self.call.run()
        self.ended_at = time.monotonic()
        return raw


class _Playing:
    def __init__(self, scenario: ServeScenario, target: Target, sight: Sight) -> None:
        self._scenario = scenario
        self._sight = sight
        self._target = target
        self._watch = Watch(target.base_url, sight)
        self._clients: dict[str, _Client] = {}
        self._conditions: list[bool] = []
        self._at_signal: Load | None = None  # what the server was doing when the first signal went out
        self._signalled_at = math.inf  # by the clock of `_Client.ended_at`
        self._seen: dict[str, str] = {}  # the ids of all exchanges, for `canonical.answer`
        self._ended: Ended | None = None

    async def play(self) -> Serve:
        await self._watch.begin()
        before = await self._load()
        for action in self._scenario.script:
            await self._act(action)
        for client in self._clients.values():
            await self._end_of(client)
        await self._watch.end()
        last = await self._settled() if not self._signalled else self._at_signal
        await self.check_alive()
        return Serve(
            exchanges=[self._answer(exchange) for exchange in self._scenario.exchanges],
            conditions=self._conditions,
            health=sorted(self._watch.health),
            preempted=before is not None and last is not None and last.preemptions > before.preemptions,
            after=None if self._signalled or last is None else _after(last),
            ended=self._ended,
        )

    async def close(self) -> None:
        """Whatever came before: no client and no poller is left."""
        await self._watch.end()
        tasks = [client.task for client in self._clients.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def check_alive(self, patience: float = 0.0) -> None:
        """Raises PlayFailed when the server has ended, or ends within `patience` seconds, without a signal."""
        end = time.monotonic() + patience
        while not self._signalled:
            if not self._target.alive():
                raise PlayFailed(f"the server {await asyncio.to_thread(own_end, self._target)}")
            if time.monotonic() >= end:
                return
            await asyncio.sleep(LOAD_EVERY)

    async def _act(self, action: Action) -> None:
        match action:
            case Send(exchange):
                await self._end_of(self._open(exchange))
            case Open(exchange):
                self._open(exchange)
            case AtOnce(exchanges):
                for client in [self._open(exchange) for exchange in exchanges]:
                    await self._end_of(client)
            case Await():
                await self._await(action)
            case Until():
                self._conditions.append(await self._until(action))
            case Leave(id):
                client = self._client(id)
                client.call.leave()
                await self._end_of(client)
            case Signal(name):
                await self._signal(name)
            case Pause(seconds):
                await self._pause(seconds)
            case Exit(within):
                ended = await asyncio.to_thread(self._target.wait, within)
                self._ended = msgspec.structs.replace(ended, orphans=min(ended.orphans, 1))
                await self.check_alive()

    async def _pause(self, seconds: float) -> None:
        """A pause ends with the server."""
        if self._signalled:
            await asyncio.sleep(seconds)
        else:
            await self.check_alive(seconds)

    @property
    def _signalled(self) -> bool:
        return self._signalled_at < math.inf

    def _open(self, exchange: Exchange) -> _Client:
        client = _Client(Call(self._target.base_url, exchange, self._watch.load))
        self._clients[exchange.id] = client
        return client

    def _client(self, id: str) -> _Client:
        if id not in self._clients:
            raise PlayFailed(f"the script speaks of exchange {id} before it opens it")
        return self._clients[id]

    async def _end_of(self, client: _Client) -> Raw:
        """Waits for the end of an exchange, which bounds itself; a server that died is no answer."""
        raw = await asyncio.shield(client.task)
        if not self._signalled and raw.ending in ("broken", "refused"):
            await self.check_alive(DYING)
        if raw.ending == "refused" and client.ended_at < self._signalled_at:
            raise PlayFailed(f"exchange {client.call.exchange.id}: the server lives but takes no connection")
        return raw

    async def _await(self, action: Await) -> None:
        client = self._client(action.id)
        if action.what == "end":
            await self._end_of(client)
            return
        client.awaited = True
        await client.call.first.wait()
        if client.task.done():
            await self._end_of(client)

    async def _until(self, action: Until) -> bool:
        def holds(load: Load) -> bool:
            return action.running in (None, load.running) and action.waiting in (None, load.waiting)

        found = await self._watch.until(holds, action.within, give_up=lambda: not self._target.alive())
        await self.check_alive()
        return found is not None

    async def _signal(self, name: str) -> None:
        """The first signal ends the polling of `/health`, and what the server did then decides what is timed."""
        if not self._signalled:
            await self._watch.end()
            self._at_signal = await self._load()
            await self.check_alive()
            self._signalled_at = time.monotonic()
        self._target.signal(name)

    async def _load(self) -> Load | None:
        """The load, null only where nobody looks at it. Raises PlayFailed."""
        load = await self._watch.load()
        if load is None and self._sight.load:
            await self.check_alive(DYING)
            raise PlayFailed("/metrics gives no answer")
        return load

    async def _settled(self) -> Load | None:
        """The load once the server is idle at two looks in a row, or what it still is after SETTLE seconds.

        Two, because a request whose client went at once may not have reached the scheduler at the first. Null
        where nobody looks at the load.
        """
        load: Load | None = None
        for _ in range(2 if self._sight.load else 0):
            await asyncio.sleep(LOAD_EVERY)
            load = await self._watch.until(_is_idle, SETTLE, give_up=lambda: not self._target.alive())
            if load is None:
                return await self._load()
        return load

    def _answer(self, exchange: Exchange) -> Answer:
        client = self._clients[exchange.id]
        raw = client.task.result()
        if raw.ending == "left" and exchange.leave_after is None and not client.awaited:
            raw = msgspec.structs.replace(raw, status=None, headers={})
        if self._at_signal is not None and self._at_signal.running > 0:
            raw = msgspec.structs.replace(raw, timed=True)
        return canonical.answer(exchange, raw, self._target, self._seen)


def _is_idle(load: Load) -> bool:
    return load.idle


def _after(load: Load) -> After:
    return After(running=load.running, waiting=load.waiting, cache_in_use=load.cache_in_use)

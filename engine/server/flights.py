"""Every request that is being generated for somebody, seen from the event loop.

A Flight is what one HTTP request waits for: the choices of its prompts, in the order in which they come. Whoever
leaves a flight early, by an error or because the client has gone, aborts what is still alive in it: blocks come back.
A reader that is slower than the engine finds the outputs of a choice joined, so that nothing piles up.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType

import msgspec

from engine.generation import Generation, TextOutput
from engine.llm import Prepared, set_soon
from engine.server.backend import Backend
from engine.server.errors import internal, shutting_down

GRACE_SECONDS = 2.0  # how long the engine has to confirm an abort before clients are answered without it


class Flight:
    """The choices of one request's prompts; iterate `pieces` once, inside `async with`.

    A choice's index counts over the prompts: prompt p and choice i of n have index p * n + i.
    A stream holds its place with `with` around that, from before its status line: from then on it is not refused.
    """

    def __init__(self, board: Flights, prepared: Sequence[Prepared], request_id: str) -> None:
        self._board = board
        self._prepared = prepared
        self._request_id = request_id
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._generations: list[Generation] = []
        self._choices = [request.params.n for request in prepared]
        self._alive = set(range(sum(self._choices)))
        self._aborted = False
        self._forced = False

    def __enter__(self) -> Flight:
        self._board.open(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._board.close(self)

    async def __aenter__(self) -> Flight:
        self._board.open(self)
        if self._aborted:
            self.force_end()
            return self
        for request in self._prepared:
            name = self._board.unique(self._request_id)
            self._generations.append(self._board.backend.submit(request, self._wake, name))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._board.close(self)
        self.abort()

    async def pieces(self) -> AsyncIterator[TextOutput]:
        """What is new, until every choice has finished.

        Raises Refused (500) for a choice that the engine failed on.
        """
        while self._alive:
            await self._news.wait()
            self._news.clear()
            for piece in self._taken():
                if piece.finish_reason is not None:
                    self._alive.discard(piece.index)
                if piece.finish_reason == "error":
                    raise internal(f"generation failed: {piece.error or 'the log says why'}")
                yield piece

    def abort(self) -> None:
        """Ask the engine to end what is still alive here; what has not been submitted yet never is."""
        self._aborted = True
        if self._alive:
            for generation in self._generations:
                generation.abort()

    def force_end(self) -> None:
        """Answer for the engine: what it has not ended is aborted as far as this flight is concerned."""
        self._forced = True
        self._news.set()

    def _wake(self) -> None:
        """Called from the engine's thread."""
        set_soon(self._loop, self._news)

    def _taken(self) -> list[TextOutput]:
        """One output at most a choice, joined from all that came since the last call."""
        found: dict[int, TextOutput] = {}
        first = 0
        submitted = self._choices[: len(self._generations)]
        for generation, choices in zip(self._generations, submitted, strict=True):
            for output in generation.take():
                index = first + output.index
                before = found.get(index)
                found[index] = (
                    msgspec.structs.replace(output, index=index) if before is None else joined(before, output)
                )
            first += choices
        if self._forced:
            for index in self._alive:
                ended = TextOutput(index, "", (), finish_reason="abort")
                before = found.get(index)
                if before is None:
                    found[index] = ended
                elif before.finish_reason is None:
                    found[index] = joined(before, ended)
        return list(found.values())


class Flights:
    """The board of all flights; the server's lifecycle asks it to drain or to end them."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._open: set[Flight] = set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._closing = False
        self._when_closing: list[Callable[[], None]] = []
        self._serial = itertools.count()

    def __len__(self) -> int:
        return len(self._open)

    def unique(self, request_id: str) -> str:
        """An id that nothing else in the engine has, whatever ids clients choose."""
        return f"{request_id}-{next(self._serial)}"

    @property
    def closing(self) -> bool:
        """Whether nothing new is taken."""
        return self._closing

    def when_closing(self, call: Callable[[], None]) -> None:
        """Have `call` called once nothing new is taken; it must not block."""
        self._when_closing.append(call)

    def open(self, flight: Flight) -> None:
        """Raises Refused (503) when the server is shutting down, unless the flight has its place already."""
        if self._closing and flight not in self._open:
            raise shutting_down()
        self._open.add(flight)
        self._empty.clear()

    def close(self, flight: Flight) -> None:
        self._open.discard(flight)
        if not self._open:
            self._empty.set()

    def refuse_new(self) -> None:
        """From now on nothing takes off."""
        self._closing = True
        for call in self._when_closing:
            call()

    async def drained(self, seconds: float) -> bool:
        """Wait until nothing is in flight; whether that came to pass in time."""
        try:
            await asyncio.wait_for(self._empty.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def abort_all(self) -> None:
        """End everything in flight with `abort`, even if the engine does not react within GRACE_SECONDS."""
        for flight in list(self._open):
            flight.abort()
        if not await self.drained(GRACE_SECONDS):
            for flight in list(self._open):
                flight.force_end()
            await self.drained(GRACE_SECONDS)


def joined(first: TextOutput, second: TextOutput) -> TextOutput:
    """Two outputs of one choice as one, under the first one's index."""
    logprobs = None
    if first.logprobs is not None or second.logprobs is not None:
        logprobs = (first.logprobs or ()) + (second.logprobs or ())
    return msgspec.structs.replace(
        second,
        index=first.index,
        text=first.text + second.text,
        token_ids=first.token_ids + second.token_ids,
        logprobs=logprobs,
        prompt_logprobs=first.prompt_logprobs if second.prompt_logprobs is None else second.prompt_logprobs,
        num_cached_tokens=max(first.num_cached_tokens, second.num_cached_tokens),
    )

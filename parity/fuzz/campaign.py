"""A hunt from its first unit to its last: units handed out until the time or the number is reached, or something is found.

Unless it is to keep going, a hunt ends with the first unit that shows something new, by index: units below it are waited
for and units above it are not counted, so that what is told does not depend on who was faster.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait

import msgspec

from parity.fuzz.crew import Crew, LostWorker
from parity.fuzz.tally import Tally, tally_of
from parity.fuzz.unit import Done, Find, Reduced, Unit
from parity.scenario import Level

SHRUNK_AT_ONCE = 5  # finds of a hunt that ends with the first: a fault in every scenario has many shapes
ATTEMPTS = 400  # of shrinking one find: what is left then is small, and a hunt has to end
SHRINK_SECONDS = 60.0  # of one find, and of all of them where it is the time that ends the hunt


class Plan(msgspec.Struct, frozen=True):
    """What a hunt draws, and when it ends: after `seconds`, or exactly after `scenarios`; one of them is given."""

    level: Level
    seed: int
    size: int
    policies: dict[str, str]
    shard: tuple[int, int]
    seconds: float | None
    scenarios: int | None
    keep_going: bool

    def units(self) -> Iterator[Unit]:
        """The units of this shard in order; without an end where the time is what ends the hunt."""
        first, step = self.shard[0] - 1, self.shard[1]
        whole = None if self.scenarios is None else -(-self.scenarios // self.size)
        for index in itertools.count(first, step):
            if whole is not None and index >= whole:
                return
            left = self.size if self.scenarios is None else self.scenarios - index * self.size
            yield Unit(self.level, self.seed, index, min(self.size, left), self.policies)


class Campaign:
    """One hunt under way. `watch` sees the tally after each unit, `keep` each unit as it is done, once.

    `began` is when its time began to run, by the monotonic clock (null: now), and `ready` when the first unit that was done
    did, the sides started; null until then.
    """

    def __init__(
        self,
        plan: Plan,
        crew: Crew,
        watch: Callable[[Tally], None] | None = None,
        keep: Callable[[Done], None] | None = None,
        began: float | None = None,
    ) -> None:
        self._plan = plan
        self._crew = crew
        self._watch = watch
        self._keep = keep
        self._units = plan.units()
        self._pending: dict[Future[Done], Unit] = {}
        self._again: list[Unit] = []
        self._done: dict[int, Done] = {}
        self._clock = time.monotonic
        self._began = self._clock() if began is None else began
        self._longest = 0.0  # seconds that a unit took, the start of servers left out
        self.ready: float | None = None
        self.tally = Tally()

    def run(self) -> Tally:
        """Hand out units until the end. Raises what a crew raises; `tally` then has what was done."""
        while True:
            while len(self._pending) < self._crew.jobs and (unit := self._next()) is not None:
                self._pending[self._crew.do(unit)] = unit
            if not self._pending:
                break
            finished, _ = wait(self._pending, return_when=FIRST_COMPLETED)
            for future in finished:
                self._take(future)
        return self._settled()

    def _next(self) -> Unit | None:
        if self._again:
            return self._again.pop()
        if self._found and not self._plan.keep_going:
            return None
        if self._plan.seconds is not None and self._done:
            left = self._plan.seconds - (self._clock() - self._began)
            if left < self._longest:
                return None
        return next(self._units, None)

    @property
    def _found(self) -> bool:
        return any(done.finds for done in self._done.values())

    def _take(self, future: Future[Done]) -> None:
        unit = self._pending.pop(future)
        try:
            done = future.result()
        except LostWorker:
            self._again.append(unit)
            return
        self._longest = max(self._longest, done.spent.without_starts)
        if self.ready is None:
            self.ready = self._clock() - done.spent.whole
        self._done[unit.index] = done
        news = self.tally.add(done)
        if news is not None and self._keep is not None:
            self._keep(news)
        if self._watch is not None:
            self._watch(self.tally)

    def _settled(self) -> Tally:
        """The tally up to the first unit that found something, where the hunt ends there."""
        if self._plan.keep_going or not self._found:
            return self.tally
        last = min(index for index, done in self._done.items() if done.finds)
        self.tally = tally_of(done for index, done in self._done.items() if index <= last)
        return self.tally


def shrink_all(
    finds: list[Find],
    crew: Crew,
    watch: Callable[[Reduced], None],
    *,
    attempts: int = ATTEMPTS,
    until: float | None = None,
) -> None:
    """Shrink these, as many at once as the crew does; `watch` sees each as it is done.

    After `until`, by the monotonic clock, they are handed on as they are.
    """
    waiting = list(reversed(finds))
    pending: dict[Future[Reduced], Find] = {}
    while waiting or pending:
        while waiting and len(pending) < crew.jobs:
            find = waiting.pop()
            left = SHRINK_SECONDS if until is None else min(SHRINK_SECONDS, until - time.monotonic())
            if left > 0:
                pending[crew.shrink(find, attempts, left)] = find
            else:
                watch(Reduced(find, 0, "time"))
        finished, _ = wait(pending, return_when=FIRST_COMPLETED)
        for future in finished:
            find = pending.pop(future)
            try:
                watch(future.result())
            except LostWorker:
                waiting.append(find)

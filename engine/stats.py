"""What the core counts, and the snapshot of it that other threads read: plain numbers, no metrics library."""

from __future__ import annotations

from bisect import bisect_left

import msgspec

from engine.block_pool import usable_blocks

# Upper bounds in seconds, as upstream's histogram of the time to the first token has them.
FIRST_TOKEN_BOUNDS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip


class Histogram(msgspec.Struct, frozen=True):
    """`counts[i]` observations are at most `bounds[i]` and above the bound before; the last count is above all."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float

    @property
    def total(self) -> int:
        return sum(self.counts)


class CoreStats(msgspec.Struct, frozen=True):
    """A moment of the core. Counters only grow; `kv_cache_usage` is the share of usable blocks in use, 0 to 1.

    `finished`: ends by reason; those that clients asked for are not among them.
    `stalled`: something waits, and only an arrival or an abort can change that. `waiting_by_reason` has upstream's reasons: everything that waits here waits for capacity.
    """

    running: int
    waiting: int
    waiting_by_reason: dict[str, int]
    kv_cache_usage: float
    free_blocks: int
    preemptions: int
    prompt_tokens: int
    generation_tokens: int
    cached_tokens: int
    steps: int
    finished: dict[str, int]
    time_to_first_token: Histogram
    stalled: bool = False

    def with_arrivals(self, count: int) -> CoreStats:
        """The same moment with `count` more requests that wait."""
        if not count:
            return self
        waiting = self.waiting + count
        reasons = self.waiting_by_reason | {"capacity": self.waiting_by_reason["capacity"] + count}
        return msgspec.structs.replace(self, waiting=waiting, waiting_by_reason=reasons, stalled=False)


class Counters:
    """What only grows; written by the core's thread alone."""

    def __init__(self) -> None:
        self.preemptions = 0
        self.prompt_tokens = 0
        self.generation_tokens = 0
        self.cached_tokens = 0
        self.steps = 0
        self.finished: dict[str, int] = {"stop": 0, "length": 0, "abort": 0, "error": 0}
        self._first_token = [0] * (len(FIRST_TOKEN_BOUNDS) + 1)
        self._first_token_sum = 0.0

    def saw_first_token(self, seconds: float) -> None:
        """Note how long a request waited for its first token."""
        self._first_token[bisect_left(FIRST_TOKEN_BOUNDS, seconds)] += 1
        self._first_token_sum += seconds

    def snapshot(
        self, running: int, waiting: int, free_blocks: int, num_blocks: int, *, stalled: bool = False
    ) -> CoreStats:
        """The counters together with the queues and the pool as they are. `num_blocks` includes the null block."""
        usable = usable_blocks(num_blocks)
        return CoreStats(
            running=running,
            waiting=waiting,
            waiting_by_reason={"capacity": waiting, "deferred": 0},
            kv_cache_usage=1.0 - free_blocks / usable if usable else 0.0,
            free_blocks=free_blocks,
            preemptions=self.preemptions,
            prompt_tokens=self.prompt_tokens,
            generation_tokens=self.generation_tokens,
            cached_tokens=self.cached_tokens,
            steps=self.steps,
            finished=dict(self.finished),
            time_to_first_token=Histogram(
                FIRST_TOKEN_BOUNDS, tuple(self._first_token), self._first_token_sum
            ),
            stalled=stalled,
        )

"""What a timeline is drawn for: the features that are switched on, and a configuration with the lengths that matter in it.

Each scenario has some features and lacks the others (swarm testing): with everything on at once, aborts and resets would
keep most preemptions from ever being resumed.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from parity.fuzz.drawing.configs import BLOCK_SIZES, WATERMARKS, Config, Pool, names, sized
from parity.fuzz.drawing.hand import Hand
from parity.models import model

Pressure = Literal["roomy", "tight", "impossible"]
Arrivals = Literal["at once", "spread", "in turn", "late"]
Oddity = Literal["overlong", "cut", "refused"]

MOST_PROMPT = 400  # tokens
MOST_OUTPUT = 36  # tokens
MOST_CHUNKS = 12  # steps that the longest prompt may take alone

_PRESSURES: tuple[Pressure, ...] = (
    "roomy",
    "tight",
    "tight",
    "impossible",
    "tight",
    "roomy",
    "tight",
    "roomy",
)
_ARRIVALS: tuple[Arrivals, ...] = ("at once", "spread", "in turn", "late", "spread", "at once")
_ODDITIES: tuple[Oddity | None, ...] = (*[None] * 21, "overlong", "cut", "refused")
_BLOCKS: dict[Pressure, tuple[int, int]] = {"roomy": (6, 20), "tight": (2, 9), "impossible": (0, 5)}  # usable
_SEQS = (16, 16, 1, 2, 3, 4, 2, 3, 5, 8)


class Features(msgspec.Struct, frozen=True):
    """What is switched on in a scenario. `apart` is what keeps requests from sharing: salts, prompt logprobs."""

    pressure: Pressure
    arrivals: Arrivals
    oddity: Oddity | None
    sharing: bool
    priority: bool
    stops: bool
    apart: bool
    aborts: bool
    resets: bool


class Frame(msgspec.Struct, frozen=True):
    """A configuration, and its edges in tokens: what the usable blocks hold, the length, the budget of a step.

    `most_prompt` is the longest prompt that is drawn under this pressure; `anchors` are the lengths about which prompts cluster.
    """

    features: Features
    config: Config
    block_size: int
    capacity: int
    limit: int
    budget: int
    most_prompt: int
    anchors: tuple[int, ...]

    def most_output(self, prompt: int) -> int:
        """Output tokens for a prompt of so many tokens: more than fit in the pool alone only where that is the point.

        The last token of a request is never written, so the pool holds one token more than it has slots.
        """
        if self.features.pressure == "impossible":
            return MOST_OUTPUT
        return max(1, min(MOST_OUTPUT, self.capacity + 1 - prompt))


def draw_features(hand: Hand) -> Features:
    flags = hand.below(64)
    return Features(
        pressure=hand.pick(_PRESSURES),
        arrivals=hand.pick(_ARRIVALS),
        oddity=hand.pick(_ODDITIES),
        sharing=bool(flags & 1),
        priority=bool(flags & 2),
        stops=bool(flags & 4),
        apart=bool(flags & 8),
        aborts=bool(flags & 16),
        resets=bool(flags & 32),
    )


def draw_frame(hand: Hand, features: Features) -> Frame:
    """A configuration that starts, but for the oddity `refused`."""
    pool = _pool(hand, features.pressure)
    config = dict(pool.keys)
    limit = _length(hand, pool, config)
    budget = _batching(hand, pool, limit, config)
    _caching(hand, features, config)
    if features.oddity == "refused":
        _refuse(hand, pool, limit, config)
    return _framed(features, pool, limit, budget, config)


def _pool(hand: Hand, pressure: Pressure) -> Pool:
    shape = model(hand.pick(names()))
    size = hand.pick(BLOCK_SIZES)
    low, high = _BLOCKS[pressure]
    if size <= 4:
        high *= 3
    elif size >= 64:
        high = min(high, 6)
    return sized(hand, shape, size, 1 + hand.between(min(low, high), high))


def _length(hand: Hand, pool: Pool, config: Config) -> int:
    """Sets `max_model_len`; the length that the scheduler will have."""
    if pool.longest < 2 or not hand.chance(1, 2):
        return max(pool.longest, 1)
    size, blocks = pool.block_size, pool.num_blocks
    anchors = (
        pool.capacity,
        blocks * size,
        pool.capacity,
        blocks * size // 2,
        2 * size,
        pool.model.max_position,
    )
    config["max_model_len"] = hand.near(anchors, 2, pool.longest)
    length: int = config["max_model_len"]
    return length


def _batching(hand: Hand, pool: Pool, limit: int, config: Config) -> int:
    """Sets sequences, budget, chunking and threshold so that they go together; the budget in tokens."""
    seqs = hand.pick(_SEQS)
    seen = config.get("max_model_len", pool.model.max_position)  # the length that the checks see
    low = max(1, min(limit, MOST_PROMPT) // MOST_CHUNKS)
    size = pool.block_size
    budget = 8192
    if hand.chance(1, 5):
        config["enable_chunked_prefill"] = False
        budget = max(budget, seen) if hand.chance(1, 3) else hand.near((seen, seen + size), seen, 1 << 24)
    elif hand.chance(3, 5):
        budget = hand.near((size, 2 * size, limit // 2, limit, limit // 3, low, 3 * size), low, 8192)
    if not hand.chance(3, 5):
        threshold = hand.near((size, limit // 3, budget // 2, budget, low), low, 8192)
        config["long_prefill_token_threshold"] = min(threshold, seen)
    config["max_num_batched_tokens"] = budget
    config["max_num_seqs"] = min(seqs, budget)
    return budget


def _caching(hand: Hand, features: Features, config: Config) -> None:
    config["scheduler_reserve_full_isl"] = not hand.chance(1, 3)
    config["enable_prefix_caching"] = not hand.chance(1, 5)
    config["scheduling_policy"] = "priority" if features.priority else "fcfs"
    if hand.chance(1, 3):
        config["watermark"] = hand.pick(WATERMARKS)


def _refuse(hand: Hand, pool: Pool, limit: int, config: Config) -> None:
    """Break one of the rules that hold the configuration together."""
    match hand.below(6):
        case 0:
            config["num_blocks"] = 0
        case 1:
            config["max_model_len"] = pool.model.max_position + 1
        case 2:
            config["max_num_batched_tokens"], config["max_num_seqs"] = 3, 4
        case 3:
            config["long_prefill_token_threshold"] = pool.model.max_position + 1
        case 4:
            config["enable_chunked_prefill"] = False
            config["max_num_batched_tokens"] = max(limit - 1, 1)
        case _:
            config["max_model_len"] = pool.num_blocks * pool.block_size + 1


def _framed(features: Features, pool: Pool, limit: int, budget: int, config: Config) -> Frame:
    size, capacity = pool.block_size, pool.capacity
    ceilings = {"roomy": max(capacity // 4, size + 1), "tight": capacity, "impossible": limit}
    most = min(ceilings[features.pressure], limit - 1, MOST_PROMPT)
    if features.oddity == "overlong":
        most = min(limit + 2 * size, MOST_PROMPT)
    most = max(most, 1)
    lengths = (size, 2 * size, most, capacity // 2, capacity // 3, budget, limit - 1, 3 * size)
    anchors = tuple(length for length in lengths if 0 < length <= most + 1) or (1,)
    return Frame(features, config, size, capacity, limit, budget, most, anchors)

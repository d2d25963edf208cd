"""Documents of level plan: start-up arithmetic at its edges, refusals of every kind included."""

from __future__ import annotations

from parity.fuzz.document import Document
from parity.fuzz.drawing.configs import BLOCK_SIZES, WATERMARKS, Config, Pool, names, sized, written
from parity.fuzz.drawing.hand import Hand
from parity.models import model

MOST_BLOCKS = 4000  # both sides hold an object a block
_SEQS = (16, 1, 2, 3, 15, 17, 64, 256)


def draw_plan(hand: Hand) -> Document:
    pool = _pool(hand)
    config = dict(pool.keys)
    limit = _length(hand, pool, config)
    _batching(hand, limit, config)
    if hand.chance(1, 6):
        _without_effect(hand, config)
    return {"level": "plan", "config": written(config)}


def _pool(hand: Hand) -> Pool:
    """Mostly a handful of blocks, as many as matter for rounding, or about what the model's own length needs."""
    shape = model(hand.pick(names()))
    size = hand.pick(BLOCK_SIZES) if hand.chance(4, 5) else hand.between(1, 128)
    scale = hand.below(8)
    if scale < 5:
        count = hand.between(0, 12)
    elif scale < 7:
        count = hand.between(0, 400)
    else:
        count = hand.near((shape.max_position // size,), 0, MOST_BLOCKS)
    return sized(hand, shape, size, count)


def _length(hand: Hand, pool: Pool, config: Config) -> int:
    """Sets `max_model_len`; the length in tokens that the batching checks see."""
    most, size = pool.model.max_position, pool.block_size
    kind = hand.below(8)
    if kind < 3:
        return most
    anchors = (
        (pool.num_blocks * size, pool.capacity)
        if kind < 6
        else (most, size, pool.num_blocks * size // 2, pool.num_blocks * size + size, 1)
    )
    length = hand.near(anchors, 1, most + 1)
    config["max_model_len"] = length
    return min(length, most)


def _batching(hand: Hand, limit: int, config: Config) -> None:
    """Sequences, budget, chunking and threshold, each left alone as often as not."""
    seqs = 16
    if hand.chance(2, 5):
        seqs = config["max_num_seqs"] = hand.pick(_SEQS)
    if hand.chance(1, 2):
        config["max_num_batched_tokens"] = hand.near((limit, seqs, seqs * limit, 2048), 1, 1 << 24)
    config["enable_chunked_prefill"] = not hand.chance(1, 4)
    if hand.chance(1, 4):
        config["long_prefill_token_threshold"] = hand.near((limit, limit // 2, 1), 0, 1 << 24)


def _without_effect(hand: Hand, config: Config) -> None:
    """Keys that start-up arithmetic does not read: that they change nothing is part of what is held."""
    flags = hand.below(16)
    config["enable_prefix_caching"] = not flags & 1
    config["scheduler_reserve_full_isl"] = not flags & 2
    config["scheduling_policy"] = "priority" if flags & 4 else "fcfs"
    config["watermark"] = hand.pick(WATERMARKS) if flags & 8 else 0.0

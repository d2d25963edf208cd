"""What the configurations of both levels are made of: models, block sizes, and a pool's size in its three forms."""

from __future__ import annotations

from typing import Any

import msgspec

from parity.defaults import config_defaults
from parity.fuzz.drawing.hand import Hand
from parity.models import models
from parity.scenario import Model

Config = dict[str, Any]

DTYPES = ("float32", "bfloat16", "float16")
BLOCK_SIZES = (16, 1, 2, 3, 4, 4, 5, 8, 8, 16, 7, 2, 16, 32, 24, 64, 128)
WATERMARKS = (0.01, 0.05, 0.1, 0.2, 0.25, 0.29, 0.5, 0.57, 0.9, 0.99)

_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_DEFAULTS = config_defaults()
_FAVOURITES = {
    "tiny-opt": 4,
    "short-opt": 3,
}  # small and shallow; the second one's own length is within reach


class Pool(msgspec.Struct, frozen=True):
    """A pool and the keys that ask for it. `num_blocks` includes the null block."""

    model: Model
    block_size: int  # tokens
    num_blocks: int
    keys: Config

    @property
    def usable(self) -> int:
        """Blocks that can be handed out."""
        return max(self.num_blocks - 1, 0)

    @property
    def capacity(self) -> int:
        """Tokens that the usable blocks hold."""
        return self.usable * self.block_size

    @property
    def longest(self) -> int:
        """The longest length in tokens that this pool starts with: the null block counts."""
        return min(self.num_blocks * self.block_size, self.model.max_position)


def names() -> tuple[str, ...]:
    """The models of the table, the favourites as often as they are to be drawn."""
    known = sorted(models(), key=lambda name: -_FAVOURITES.get(name, 0))
    return tuple(name for name in known for _ in range(_FAVOURITES.get(name, 1)))


def bytes_per_block(model: Model, dtype: str, block_size: int) -> int:
    """Bytes of a block's keys and values over all layers."""
    return 2 * _BYTES[dtype] * model.num_layers * model.num_kv_heads * model.head_size * block_size


def sized(hand: Hand, model: Model, block_size: int, num_blocks: int) -> Pool:
    """A pool of about `num_blocks`: by the override, by bytes that make them to the byte, or by both at odds."""
    dtype = hand.pick(DTYPES)
    form = hand.below(8)
    per_block = bytes_per_block(model, dtype, block_size)
    memory = num_blocks * per_block
    keys: Config = {"model": model.name, "dtype": dtype, "block_size": block_size}
    if form < 5:
        keys["num_blocks"] = num_blocks
    if form == 4:
        keys["kv_cache_memory_bytes"] = max(memory + hand.pick((-per_block, 0, per_block, -1)), 0)
    elif form > 4:
        memory = max(memory + hand.pick((0, -1, 1, per_block - 1)), 0)
        keys["kv_cache_memory_bytes"] = memory
        num_blocks = memory // per_block
    return Pool(model, block_size, num_blocks, keys)


def written(config: Config) -> Config:
    """The keys that differ from their defaults, in the order of docs/config.md."""
    keys = ("model", *_DEFAULTS)
    return {key: config[key] for key in keys if key in config and config[key] != _DEFAULTS.get(key)}

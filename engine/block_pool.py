"""The pool of KV blocks: who is free, in which order they are taken, and which of them the cache still knows.

A block is its id. Block 0 is the null block, a placeholder that is never handed out. A block is either in
the free queue or referenced, and every reference is one entry of one block table:

    free + referenced + 1 (the null block) = num_blocks

A free block may still carry a cache key; it loses the key when it is handed out anew (eviction).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from engine.block_hash import BlockHash

NULL_BLOCK = 0


def blocks_for(num_tokens: int, block_size: int) -> int:
    """Blocks that hold `num_tokens` tokens: the quotient rounded up (negative counts included)."""
    return -(-num_tokens // block_size)


def usable_blocks(num_blocks: int) -> int:
    """Blocks of a pool of `num_blocks` that can be handed out: all but the null block."""
    return max(num_blocks - 1, 0)


class BlockPool:
    """`num_blocks` blocks, the null block included. Mirrors vllm/v1/core/block_pool.py::BlockPool.

    `free` is the queue of free block ids, next to be taken first. `ref_counts` holds referenced blocks only.
    `hash_of` is the cache key of each block that has one; `cached` the blocks of each key, first inserted first.
    """

    __slots__ = ("cached", "enable_caching", "free", "hash_of", "num_blocks", "ref_counts")

    def __init__(self, num_blocks: int, enable_caching: bool) -> None:
        self.num_blocks = num_blocks
        self.enable_caching = enable_caching
        self.free: OrderedDict[int, None] = OrderedDict.fromkeys(range(NULL_BLOCK + 1, num_blocks))
        self.ref_counts: dict[int, int] = {}
        self.hash_of: dict[int, BlockHash] = {}
        self.cached: dict[BlockHash, list[int]] = {}

    @property
    def num_free_blocks(self) -> int:
        return len(self.free)

    def take(self, count: int) -> list[int]:
        """`count` blocks from the front of the free queue, each with one reference and without a cache key.

        Raises KeyError when there are not as many. Mirrors ::BlockPool.get_new_blocks.
        """
        taken = [self.free.popitem(last=False)[0] for _ in range(count)]
        for block in taken:
            if block in self.hash_of:
                self._evict(block)
            self.ref_counts[block] = 1
        return taken

    def touch(self, blocks: Sequence[int]) -> None:
        """Add one reference to each block; those that were free leave the queue and keep their key."""
        counts = self.ref_counts
        for block in blocks:
            if block in counts:
                counts[block] += 1
            else:
                del self.free[block]
                counts[block] = 1

    def release(self, blocks: Iterable[int]) -> None:
        """Drop one reference of each block, in eviction order (the first is to be taken first).

        With caching on, a block without a key goes to the front of the queue, and keyed ones to the back; with
        caching off all go to the back. Mirrors ::BlockPool.free_blocks for the blocks of one request, of which
        at most the last is without a key.
        """
        counts, free = self.ref_counts, self.free
        for block in blocks:
            if counts[block] > 1:
                counts[block] -= 1
                continue
            del counts[block]
            free[block] = None
            if self.enable_caching and block not in self.hash_of:
                free.move_to_end(block, last=False)

    def evictable(self, blocks: Sequence[int]) -> int:
        """How many of `blocks` are free now and would leave the queue when touched."""
        counts = self.ref_counts
        return sum(block not in counts for block in blocks)

    def lookup(self, key: BlockHash) -> int | None:
        """The block first inserted under `key`, or None. Mirrors ::BlockHashToBlockMap.get_one_block."""
        blocks = self.cached.get(key)
        return None if blocks is None else blocks[0]

    def insert(self, block: int, key: BlockHash) -> None:
        """Make a full block findable under `key`; equal blocks are not merged, tables are append-only.

        Mirrors ::BlockPool.cache_full_blocks for one block.
        """
        self.hash_of[block] = key
        self.cached.setdefault(key, []).append(block)

    def reset(self) -> bool:
        """Forget every cache key; refused (False) while any block is referenced.

        Mirrors ::BlockPool.reset_prefix_cache.
        """
        if self.ref_counts:
            return False
        self.hash_of.clear()
        self.cached.clear()
        return True

    def _evict(self, block: int) -> None:
        key = self.hash_of.pop(block)
        blocks = self.cached[key]
        blocks.remove(block)
        if not blocks:
            del self.cached[key]

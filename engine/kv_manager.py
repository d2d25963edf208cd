"""Block tables: which blocks hold the keys and values of which request.

A table is append-only; its blocks are, in order, those found in the prefix cache and those taken new. The
first `num_cached` of them have a key (or, without caching or beyond `max_model_len`, never will).
Mirrors vllm/v1/core/kv_cache_manager.py::KVCacheManager with one group of full attention.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.block_pool import BlockPool, blocks_for
from engine.request import Request


class KVManager:
    """Allocates slots of `pool` to requests; `max_model_len` is in tokens, `watermark` a fraction of the pool."""

    __slots__ = ("block_size", "max_model_len", "num_cached", "pool", "tables", "watermark_blocks")

    def __init__(self, pool: BlockPool, block_size: int, max_model_len: int, watermark: float) -> None:
        self.pool = pool
        self.block_size = block_size
        self.max_model_len = max_model_len
        self.watermark_blocks = int(watermark * pool.num_blocks)
        self.tables: dict[str, list[int]] = {}
        self.num_cached: dict[str, int] = {}

    def find_cached(self, request: Request) -> list[int]:
        """The longest run of cached blocks from the request's start; at least one token is left to compute.

        Mirrors ::KVCacheManager.get_computed_blocks: a request that skips reading finds nothing.
        """
        found: list[int] = []
        if not request.reads_cache:
            return found
        for key in request.block_hashes[: (request.num_tokens - 1) // self.block_size]:
            block = self.pool.lookup(key)
            if block is None:
                break
            found.append(block)
        return found

    def allocate_slots(
        self,
        request: Request,
        num_new_tokens: int,
        found: Sequence[int] = (),
        *,
        full_sequence_must_fit: bool = False,
        keep_watermark: bool = False,
    ) -> bool:
        """Give the request slots for `num_new_tokens` after what is computed; False, and no change, if short.

        `found` are cached blocks that the request adopts; those that are free leave the queue, so they count
        as needed. `full_sequence_must_fit` asks room for all known tokens first; `keep_watermark` leaves the
        watermark's blocks free. A table may get fewer slots than tokens: no slot lies beyond `max_model_len`.
        Mirrors ::KVCacheManager.allocate_slots.
        """
        pool, size, limit = self.pool, self.block_size, self.max_model_len
        table = self.tables.get(request.id)
        held = len(found) + (len(table) if table else 0)
        num_tokens = request.num_computed_tokens + len(found) * size + num_new_tokens
        spare = pool.num_free_blocks - pool.evictable(found)
        if keep_watermark:
            spare -= self.watermark_blocks
        if full_sequence_must_fit and blocks_for(min(request.num_tokens, limit), size) - held > spare:
            return False
        missing = blocks_for(min(num_tokens, limit), size) - held
        if missing > spare:
            return False
        if table is None:
            table = self.tables[request.id] = []
        if found:
            pool.touch(found)
            table.extend(found)
            self.num_cached[request.id] = len(found)
        table.extend(pool.take(missing))
        self._cache_full_blocks(request, table, num_tokens)
        return True

    def free(self, request: Request) -> None:
        """Give back the request's blocks, the last one first, so that tails are evicted before heads."""
        table = self.tables.pop(request.id, None)
        self.num_cached.pop(request.id, None)
        if table:
            self.pool.release(reversed(table))

    def _cache_full_blocks(self, request: Request, table: list[int], num_tokens: int) -> None:
        """Key the blocks that `num_tokens` tokens fill, those scheduled but not yet computed included.

        Mirrors vllm/v1/core/single_type_kv_cache_manager.py::SingleTypeKVCacheManager.cache_blocks.
        """
        full = num_tokens // self.block_size
        done = self.num_cached.get(request.id, 0)
        for block, key in zip(table[done:full], request.block_hashes[done:], strict=False):
            self.pool.insert(block, key)
        self.num_cached[request.id] = full

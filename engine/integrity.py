"""The engine's invariants as code: run after every step, cheap enough to stay on.

    every block is the null block, free or referenced, and exactly one of them
    a block's reference count is the number of block tables that hold it, once each
    running requests hold tables, waiting ones do not, and nobody is in both queues
    a block's cache key and the cache's entry for that key name each other

That no block is twice in the free queue holds by the queue's type, an ordered set of block ids.
"""

from __future__ import annotations

from engine.block_pool import NULL_BLOCK, BlockPool
from engine.scheduler import Scheduler


class IntegrityError(Exception):
    """A broken invariant of our own: never mirrored behaviour."""


def check_integrity(scheduler: Scheduler) -> None:
    """Raise IntegrityError, which names the invariant and what was counted, if one is broken.

    O(blocks in tables + cached blocks): free blocks that were never used cost nothing.
    """
    _check_queues(scheduler)
    _check_references(scheduler)
    _check_blocks(scheduler.pool)
    _check_cache(scheduler.pool)


def _check_queues(scheduler: Scheduler) -> None:
    running = {request.id for request in scheduler.running}
    waiting = {request.id for request in scheduler.waiting}
    if len(running) != len(scheduler.running) or len(waiting) != len(scheduler.waiting):
        raise IntegrityError("a request is twice in one queue")
    if not running.isdisjoint(waiting):
        raise IntegrityError(f"running and waiting at once: {sorted(running & waiting)}")
    if running | waiting != scheduler.requests.keys():
        raise IntegrityError(
            f"queues hold {sorted(running | waiting)}, the engine knows {sorted(scheduler.requests)}"
        )
    if len(running) > scheduler.max_num_seqs:
        raise IntegrityError(f"{len(running)} run, max_num_seqs is {scheduler.max_num_seqs}")
    if running != scheduler.kv.tables.keys():
        raise IntegrityError(f"block tables of {sorted(scheduler.kv.tables)}, running are {sorted(running)}")


def _check_references(scheduler: Scheduler) -> None:
    """Reference counts against the tables that hold the blocks."""
    held: dict[int, int] = {}
    for request_id, table in scheduler.kv.tables.items():
        if len(set(table)) != len(table):
            raise IntegrityError(f"request {request_id!r} holds a block twice: {table}")
        for block in table:
            held[block] = held.get(block, 0) + 1
    counts = scheduler.pool.ref_counts
    if held != counts:
        wrong = {
            block: (counts.get(block, 0), held.get(block, 0))
            for block in sorted(counts.keys() | held.keys())
            if counts.get(block) != held.get(block)
        }
        raise IntegrityError(f"block: (references counted, references held): {wrong}")


def _check_blocks(pool: BlockPool) -> None:
    """free + referenced + null = all, the three being disjoint."""
    free, referenced = pool.free.keys(), pool.ref_counts.keys()
    both = [block for block in referenced if block in free]
    if both:
        raise IntegrityError(f"free but referenced: {sorted(both)}")
    if NULL_BLOCK in free or NULL_BLOCK in referenced:
        raise IntegrityError("the null block was handed out or freed")
    if len(free) + len(referenced) + 1 != pool.num_blocks:
        raise IntegrityError(
            f"{len(free)} free + {len(referenced)} referenced + 1 null are not all {pool.num_blocks} blocks"
        )


def _check_cache(pool: BlockPool) -> None:
    """Keys of blocks and blocks of keys are one relation, read from either side."""
    hash_of = pool.hash_of
    if sum(map(len, pool.cached.values())) != len(hash_of):
        raise IntegrityError(
            f"{len(hash_of)} blocks have a cache key, the cache lists {sum(map(len, pool.cached.values()))}"
        )
    for key, blocks in pool.cached.items():
        for block in blocks:
            if hash_of.get(block) != key:
                raise IntegrityError(f"the cache lists block {block} under a key that it does not have")

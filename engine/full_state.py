"""The engine's state with block ids renamed by first appearance: equal values behave alike from here on.

Docs/protocol.md names the walk: running, then waiting requests, the free queue, each block's cache key.
Tokens are no part of the value, since it is only compared between two steps with none emitted between.
A free block is in no table, so in that walk the free queue always gets the next new names in order: its
length and its keys say everything about it.
"""

from __future__ import annotations

from collections.abc import Hashable

from engine.scheduler import Scheduler


def full_state(scheduler: Scheduler) -> Hashable:
    """A value that is equal for two states that differ by a renaming of blocks only."""
    pool, tables = scheduler.pool, scheduler.kv.tables
    names: dict[int, int] = {}
    requests = []
    for queue in (scheduler.running, scheduler.waiting):
        for request in queue:
            table = tuple(names.setdefault(block, len(names)) for block in tables.get(request.id, ()))
            requests.append((request.id, request.status, request.num_computed_tokens, table))
    key_of = pool.hash_of.get
    return (
        tuple(requests),
        len(pool.free),
        tuple(map(key_of, names)),
        tuple(map(key_of, pool.free)) if pool.hash_of else (),
    )

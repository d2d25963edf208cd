"""Every kind of corruption is found; each is planted into an engine that was sound until then."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from engine.integrity import IntegrityError, check_integrity
from engine.request import Request
from engine.scheduler import Scheduler
from engine.wire import EngineConfig, RequestSpec
from tests.engine.scenes import Requests, config


def running_engine() -> Scheduler:
    """Two requests that share a cached block run (tables [1, 2] and [1, 3]), a third waits; 6 of 9 are free."""
    settings = msgspec.convert(config(num_blocks=10, max_num_seqs=2), EngineConfig)
    scheduler = Scheduler(settings, 10, 160)
    make = Requests().make
    first = make(20, 8)
    for spec in (first, make([*first["prompt"][:16], 1, 2], 8), make(8, 8)):
        scheduler.add_request(Request(msgspec.convert(spec, RequestSpec), 16))
    scheduler.schedule()
    assert scheduler.kv.tables == {"r0": [1, 2], "r1": [1, 3]}
    check_integrity(scheduler)
    return scheduler


def lose_a_free_block(scheduler: Scheduler) -> None:
    del scheduler.pool.free[9]


def invent_a_free_block(scheduler: Scheduler) -> None:
    scheduler.pool.free[77] = None


def free_a_referenced_block(scheduler: Scheduler) -> None:
    scheduler.pool.free[2] = None


def free_the_null_block(scheduler: Scheduler) -> None:
    scheduler.pool.free[0] = None
    del scheduler.pool.free[9]


def hand_out_the_null_block(scheduler: Scheduler) -> None:
    scheduler.kv.tables["r0"].append(0)
    scheduler.pool.ref_counts[0] = 1


def count_a_reference_too_many(scheduler: Scheduler) -> None:
    scheduler.pool.ref_counts[1] += 1


def forget_a_reference(scheduler: Scheduler) -> None:
    scheduler.pool.ref_counts[1] -= 1


def keep_a_zero_count(scheduler: Scheduler) -> None:
    scheduler.pool.ref_counts[9] = 0


def hold_a_block_twice(scheduler: Scheduler) -> None:
    scheduler.kv.tables["r0"].append(1)
    scheduler.pool.ref_counts[1] += 1


def leave_a_table_behind(scheduler: Scheduler) -> None:
    scheduler.kv.tables["gone"] = []


def give_a_waiting_request_a_table(scheduler: Scheduler) -> None:
    scheduler.kv.tables["r2"] = scheduler.pool.take(1)


def run_and_wait_at_once(scheduler: Scheduler) -> None:
    scheduler.waiting.add(scheduler.running[0])


def run_twice(scheduler: Scheduler) -> None:
    scheduler.running.append(scheduler.running[0])


def wait_twice(scheduler: Scheduler) -> None:
    scheduler.waiting.add(scheduler.waiting.peek())


def lose_a_request(scheduler: Scheduler) -> None:
    scheduler.waiting.pop()


def run_more_than_allowed(scheduler: Scheduler) -> None:
    scheduler.max_num_seqs = 1


def key_without_an_entry(scheduler: Scheduler) -> None:
    scheduler.pool.hash_of[2] = b"nowhere"


def entry_without_a_key(scheduler: Scheduler) -> None:
    scheduler.pool.cached[b"nobody's"] = [2]


def entry_under_another_key(scheduler: Scheduler) -> None:
    pool = scheduler.pool
    pool.cached[b"other"] = pool.cached.pop(pool.hash_of[1])


@pytest.mark.parametrize(
    ("corrupt", "message"),
    [
        (lose_a_free_block, r"5 free \+ 3 referenced \+ 1 null are not all 10 blocks"),
        (invent_a_free_block, r"7 free \+ 3 referenced \+ 1 null are not all 10 blocks"),
        (free_a_referenced_block, r"free but referenced: \[2\]"),
        (free_the_null_block, "null block"),
        (hand_out_the_null_block, "null block"),
        (count_a_reference_too_many, r"\{1: \(3, 2\)\}"),
        (forget_a_reference, r"\{1: \(1, 2\)\}"),
        (keep_a_zero_count, r"\{9: \(0, 0\)\}"),
        (hold_a_block_twice, r"'r0' holds a block twice: \[1, 2, 1\]"),
        (leave_a_table_behind, "block tables of"),
        (give_a_waiting_request_a_table, "block tables of"),
        (run_and_wait_at_once, r"running and waiting at once: \['r0'\]"),
        (run_twice, "twice in one queue"),
        (wait_twice, "twice in one queue"),
        (lose_a_request, "the engine knows"),
        (run_more_than_allowed, "2 run, max_num_seqs is 1"),
        (key_without_an_entry, "2 blocks have a cache key, the cache lists 1"),
        (entry_without_a_key, "1 blocks have a cache key, the cache lists 2"),
        (entry_under_another_key, "lists block 1 under a key that it does not have"),
    ],
)
def test_a_corruption_is_named(corrupt: Callable[[Scheduler], None], message: str) -> None:
    scheduler = running_engine()

    corrupt(scheduler)

    with pytest.raises(IntegrityError, match=message):
        check_integrity(scheduler)

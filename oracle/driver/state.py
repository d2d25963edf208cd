"""Reads of upstream's scheduler: queues, block tables, the pool, and the full state of the protocol."""

from __future__ import annotations

from collections.abc import Hashable

from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import Request, RequestStatus

from oracle.driver.ending import renamed_blocks
from oracle.driver.errors import DriverError

# All that the driver calls, reads or watches of a scheduler, whatever its class (docs/protocol.md).
READ = (
    *("add_request", "finish_requests", "reset_prefix_cache", "schedule", "update_from_output"),
    *("_preempt_request", "requests", "running", "waiting", "skipped_waiting"),
    *("kv_cache_config.kv_cache_groups", "kv_cache_config.kv_cache_tensors", "kv_cache_config.num_blocks"),
    *("kv_cache_manager.get_block_ids", "kv_cache_manager.enable_caching"),
    *("kv_cache_manager.block_pool.blocks", "kv_cache_manager.block_pool.get_num_free_blocks"),
    "kv_cache_manager.block_pool.free_block_queue.get_all_free_blocks",
    *("max_num_running_reqs", "max_num_scheduled_tokens", "policy.value", "block_size"),
)


def check_readable(scheduler: object) -> None:
    """Raises DriverError that names what of READ a scheduler does not have."""
    lacking = dict.fromkeys(gone for path in READ if (gone := _gone(scheduler, path)) is not None)
    if lacking:
        raise DriverError(f"the scheduler has no {', '.join(lacking)}, which the driver needs")


def _gone(scheduler: object, path: str) -> str | None:
    """The first part of `path` that is not there, from the scheduler on; None where all of it is."""
    found, so_far = scheduler, []
    for name in path.split("."):
        so_far.append(name)
        if not hasattr(found, name):
            return ".".join(so_far)
        found = getattr(found, name)
    return None


def running(scheduler: Scheduler) -> list[Request]:
    return list(scheduler.running)


def waiting(scheduler: Scheduler) -> list[Request]:
    """The waiting queue in the order in which it would be served.

    Raises DriverError when upstream has set requests aside: no feature that does so is in scope.
    """
    if scheduler.skipped_waiting:
        aside = ", ".join(request.request_id for request in scheduler.skipped_waiting)
        raise DriverError(f"upstream set waiting requests aside: {aside}")
    return list(scheduler.waiting)


def statuses(scheduler: Scheduler) -> dict[str, RequestStatus]:
    """The status of each request that has not ended."""
    return {request_id: request.status for request_id, request in scheduler.requests.items()}


def block_table(scheduler: Scheduler, request_id: str) -> list[int]:
    (table,) = scheduler.kv_cache_manager.get_block_ids(request_id)
    return list(table)


def free_blocks(scheduler: Scheduler) -> int:
    free: int = scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
    return free


def block_hashes(scheduler: Scheduler) -> list[Hashable]:
    """Each block's cache hash, indexed by block id; None for one that is not cached."""
    return [block.block_hash for block in scheduler.kv_cache_manager.block_pool.blocks]


def evicted_blocks(scheduler: Scheduler, hashes: list[Hashable]) -> list[int]:
    """Ids of the blocks that had a hash in `hashes` and now have none or another one, ascending."""
    blocks = scheduler.kv_cache_manager.block_pool.blocks
    cached = (item for item in enumerate(hashes) if item[1] is not None)
    return [block for block, old in cached if blocks[block].block_hash != old]


def full_state(scheduler: Scheduler) -> Hashable:
    """All that the next steps depend on, blocks renamed by first appearance (docs/protocol.md)."""
    requests = [*running(scheduler), *waiting(scheduler)]
    queue = scheduler.kv_cache_manager.block_pool.free_block_queue
    return (
        tuple(
            (
                request.request_id,
                int(request.status),
                request.num_computed_tokens,
                request.num_output_tokens,
            )
            for request in requests
        ),
        renamed_blocks(
            [block_table(scheduler, request.request_id) for request in requests],
            [block.block_id for block in queue.get_all_free_blocks()],
            block_hashes(scheduler),
        ),
    )

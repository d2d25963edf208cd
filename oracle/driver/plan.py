"""Level plan: what upstream's start-up arithmetic came out with, read from upstream's own results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from oracle.driver.capture import captured_warnings
from oracle.driver.config import Started, start
from oracle.driver.door import OpenDoor
from oracle.driver.errors import DriverError, UpstreamRaised
from oracle.driver.kinds import error_kind, estimated_max_model_len
from oracle.driver.wire import Config, Plan, PlanError, PlanOk


@dataclass(frozen=True)
class Planned:
    """The plan, and the upstream that was started for it; where upstream refused, None and what it raised."""

    plan: Plan
    started: Started | None
    refusal: Exception | None = None


def make_plan(
    config: Config, model_folder: Path, open_door: OpenDoor, scheduler_cls: str | None = None
) -> Planned:
    """Starts upstream and reads its plan. What upstream refuses is a PlanError; raises DriverError.

    `scheduler_cls` is a class in the place of upstream's scheduler.
    """
    with captured_warnings(replaced=scheduler_cls is not None) as warnings:
        try:
            started = start(config, model_folder, open_door, scheduler_cls)
        except UpstreamRaised as raised:
            kind = error_kind(raised.cause)
            error = PlanError(warnings.kinds(), kind, estimated_max_model_len(raised.cause))
            return Planned(error, None, raised.cause)
    return Planned(_read(started, warnings.kinds()), started)


def _read(started: Started, warnings: list[str]) -> PlanOk:
    scheduler = started.door.scheduler
    kv_cache_config = scheduler.kv_cache_config
    size_tokens, concurrency = started.door.capacity
    return PlanOk(
        warnings=warnings,
        bytes_per_block=bytes_per_block(
            sum(tensor.size for tensor in kv_cache_config.kv_cache_tensors), kv_cache_config.num_blocks
        ),
        num_blocks=kv_cache_config.num_blocks,
        usable_blocks=scheduler.kv_cache_manager.block_pool.get_num_free_blocks(),
        max_model_len=started.vllm_config.model_config.max_model_len,
        kv_cache_size_tokens=size_tokens,
        concurrency=concurrency_fraction(kv_cache_config.num_blocks, concurrency),
        concurrency_label=f"{concurrency:.2f}x",
    )


def bytes_per_block(pool_bytes: int, num_blocks: int) -> int:
    """Bytes of one block over all layers, from the bytes of the tensors that upstream would allocate."""
    size, rest = divmod(pool_bytes, num_blocks)
    if rest:
        raise DriverError(f"{pool_bytes} bytes of KV cache do not divide into {num_blocks} blocks")
    return size


def concurrency_fraction(num_blocks: int, concurrency: float) -> tuple[int, int]:
    """The integers whose quotient upstream's float is: (num_blocks, blocks of one request).

    Raises DriverError unless dividing them again gives that very float.
    """
    blocks_per_request = round(num_blocks / concurrency)
    if blocks_per_request < 1 or num_blocks / blocks_per_request != concurrency:
        raise DriverError(f"concurrency {concurrency!r} is no quotient of {num_blocks} blocks")
    return num_blocks, blocks_per_request

"""Start-up arithmetic: how many blocks there are, how long a request may get, and what is refused.

The null block is part of every count here, as it is upstream at the mirrored version: an advertised
length may therefore need one block more than the pool can ever hand out. The policy
`null-block-capacity = reserve` takes one block's bytes out of what auto-fit and the admission check see.
"""

from __future__ import annotations

import logging

import msgspec

from engine.block_pool import blocks_for, usable_blocks
from engine.policies import Policies
from engine.wire import EngineConfig

logger = logging.getLogger("nullblock.engine")


class PlanOk(msgspec.Struct, frozen=True, tag_field="status", tag="ok"):
    """What the engine starts with.

    `num_blocks` includes the null block, `usable_blocks` is what a freshly built pool has free,
    `concurrency` is (blocks, blocks of one request at `max_model_len`).
    """

    warnings: list[str]
    bytes_per_block: int
    num_blocks: int
    usable_blocks: int
    max_model_len: int
    kv_cache_size_tokens: int
    concurrency: tuple[int, int]
    concurrency_label: str


class PlanRefused(msgspec.Struct, frozen=True, tag_field="status", tag="error"):
    """Why the engine does not start: a kind of docs/protocol.md, and the length that would fit."""

    warnings: list[str]
    kind: str
    estimated_max_model_len: int | None


Plan = PlanOk | PlanRefused


class _RefusalError(Exception):
    """A failed check, on its way to PlanRefused."""

    def __init__(self, kind: str, estimate: int | None = None) -> None:
        super().__init__(kind)
        self.kind = kind
        self.estimate = estimate


def plan(config: EngineConfig, policies: Policies) -> Plan:
    """The start-up plan, or the first check that fails, in upstream's order.

    Mirrors vllm/v1/core/kv_cache_utils.py::get_kv_cache_configs and the config classes it runs after.
    """
    warnings: list[str] = []
    try:
        limit = _length_limit(config)
        _check_batching(config, limit, warnings)
        max_model_len = _fit(config, limit, policies)
    except _RefusalError as refusal:
        return PlanRefused(warnings, refusal.kind, refusal.estimate)
    return _describe(config, max_model_len, warnings)


def _length_limit(config: EngineConfig) -> int:
    """The length in tokens that the batching checks see: the explicit one, or the model's own for `auto`.

    Mirrors vllm/config/model.py::_get_and_verify_max_len.
    """
    if config.max_model_len == "auto":
        return config.model.max_position
    if config.max_model_len > config.model.max_position:
        raise _RefusalError("max-model-len-above-model")
    return config.max_model_len


def _check_batching(config: EngineConfig, limit: int, warnings: list[str]) -> None:
    """Hold the batching limits against each other; `warnings` collects what is only odd.

    Mirrors vllm/config/scheduler.py::SchedulerConfig.verify_max_model_len, order included.
    """
    budget, seqs = config.max_num_batched_tokens, config.max_num_seqs
    if budget < limit and not config.enable_chunked_prefill:
        raise _RefusalError("batched-tokens-below-max-model-len")
    if budget < seqs:
        raise _RefusalError("batched-tokens-below-max-num-seqs")
    if budget > seqs * limit:
        warnings.append("batched-tokens-exceed-seqs-times-len")
    if config.long_prefill_token_threshold > limit:
        raise _RefusalError("long-prefill-threshold-above-max-model-len")


def _fit(config: EngineConfig, limit: int, policies: Policies) -> int:
    """The maximum length in tokens of one request, fitted where it is `auto`, admitted where it is explicit.

    Mirrors vllm/v1/core/kv_cache_utils.py::_auto_fit_max_model_len and ::_check_enough_kv_cache_memory.
    """
    per_block = config.bytes_per_block
    memory = config.kv_cache_memory_bytes if config.num_blocks is None else config.num_blocks * per_block
    if policies.null_block_capacity.reserves:
        memory -= per_block
    fitting = min(memory // per_block * config.block_size, limit)
    if config.max_model_len == "auto":
        if fitting <= 0:
            raise _RefusalError("cannot-auto-fit")
        return fitting
    if memory <= 0:
        raise _RefusalError("no-kv-cache-memory")
    if fitting < limit:
        raise _RefusalError("kv-cache-too-small", fitting if fitting > 0 else None)
    return limit


def _describe(config: EngineConfig, max_model_len: int, warnings: list[str]) -> PlanOk:
    """The numbers that upstream logs at start-up.

    The size in tokens is the unrounded binary quotient times the length, cut to an integer, so that it
    loses a token exactly where upstream's does. Mirrors vllm/v1/core/kv_cache_utils.py::get_kv_cache_capacity.
    """
    num_blocks = (
        config.kv_cache_memory_bytes // config.bytes_per_block
        if config.num_blocks is None
        else config.num_blocks
    )
    per_request = blocks_for(max_model_len, config.block_size)
    concurrency = num_blocks / per_request
    usable = usable_blocks(num_blocks)
    if blocks_for(max_model_len - 1, config.block_size) > usable:
        logger.warning(
            "max_model_len=%d needs more blocks than the %d that can be handed out: a request that long "
            "waits for ever (mirrored behaviour: records/auto-fit/null-block-counted.md, policy null-block-capacity)",
            max_model_len,
            usable,
        )
    return PlanOk(
        warnings=warnings,
        bytes_per_block=config.bytes_per_block,
        num_blocks=num_blocks,
        usable_blocks=usable,
        max_model_len=max_model_len,
        kv_cache_size_tokens=int(concurrency * max_model_len),
        concurrency=(num_blocks, per_request),
        concurrency_label=f"{concurrency:.2f}x",
    )

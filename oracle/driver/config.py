"""From a scenario's configuration to a started upstream: its config objects, and the door that opens on them.

Nothing is shared between scenarios, because upstream writes into its config objects (auto-fit into
`max_model_len`, the platform into several settings): all are built afresh, but for the model's, which is
copied. What was asked is read back afterwards: a setting that upstream changed silently is a fault of the
driver's, never an observation.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vllm.config import CacheConfig, ModelConfig, SchedulerConfig, VllmConfig
from vllm.v1.core.sched.scheduler import Scheduler

from oracle.driver.door import Door, OpenDoor
from oracle.driver.errors import DriverError, upstream_code
from oracle.driver.replacement import load, qualified_name
from oracle.driver.state import check_readable
from oracle.driver.wire import Config

AUTO = -1  # upstream's spelling of an auto-fitted max_model_len


@dataclass(frozen=True)
class Started:
    """Upstream after start-up, nothing played yet. Whoever is done with it closes its door."""

    vllm_config: VllmConfig
    door: Door


def start(
    config: Config, model_folder: Path, open_door: OpenDoor, scheduler_cls: str | None = None
) -> Started:
    """Starts upstream up to the scheduler, through the door that `open_door` opens.

    Raises UpstreamRaised where upstream refuses, DriverError where a setting did not stand, or the class
    `scheduler_cls` cannot be had or read.
    """
    with upstream_code():
        vllm_config = build_config(config, model_folder, scheduler_cls)
    _verify(_settings(vllm_config, config, scheduler_cls))
    class_ = Scheduler if scheduler_cls is None else load(vllm_config.scheduler_config)
    with upstream_code():
        door = open_door(vllm_config, config.kv_cache_memory_bytes)
    check_readable(door.scheduler)
    _verify(_settings(vllm_config, config, scheduler_cls, fitted=True))
    _verify(_scheduler_settings(door.scheduler, config, class_))
    return Started(vllm_config, door)


def build_config(config: Config, model_folder: Path, scheduler_cls: str | None) -> VllmConfig:
    """Upstream's config objects, in the order in which its own start-up makes and checks them."""
    length = AUTO if config.max_model_len == "auto" else config.max_model_len
    model_config = copy.deepcopy(_model_config(str(model_folder), config.dtype, length))
    cache_config = CacheConfig(
        block_size=config.block_size,
        enable_prefix_caching=config.enable_prefix_caching,
        num_gpu_blocks_override=config.num_blocks,
    )
    scheduler_config = SchedulerConfig(
        max_model_len=model_config.max_model_len,
        is_encoder_decoder=model_config.is_encoder_decoder,
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        enable_chunked_prefill=config.enable_chunked_prefill,
        long_prefill_token_threshold=config.long_prefill_token_threshold,
        scheduler_reserve_full_isl=config.scheduler_reserve_full_isl,
        watermark=config.watermark,
        policy=config.scheduling_policy,
        async_scheduling=False,
        scheduler_cls=scheduler_cls,
    )
    return VllmConfig(model_config=model_config, cache_config=cache_config, scheduler_config=scheduler_config)


@functools.lru_cache(maxsize=512)
def _model_config(folder: str, dtype: str, max_model_len: int) -> ModelConfig:
    """Upstream's model configuration, made once: reading the folder was half of a scenario's time.

    Never handed out itself, only copies. What upstream refuses is not kept. It does not warn here; if it did, the
    second play of a scenario would lack the warning, and the run would call the oracle flaky.
    """
    return ModelConfig(
        model=folder, tokenizer=folder, skip_tokenizer_init=True, dtype=dtype, max_model_len=max_model_len
    )


Setting = tuple[str, Any, Any]  # (name, as asked, as it stands)


def _settings(
    vllm_config: VllmConfig, config: Config, scheduler_cls: str | None, fitted: bool = False
) -> Iterator[Setting]:
    model, parallel = vllm_config.model_config, vllm_config.parallel_config
    cache, scheduler = vllm_config.cache_config, vllm_config.scheduler_config
    auto = config.max_model_len == "auto"
    yield "dtype", f"torch.{config.dtype}", str(model.dtype)
    yield "num_layers", config.model.num_layers, model.get_num_layers(parallel)
    yield "num_kv_heads", config.model.num_kv_heads, model.get_num_kv_heads(parallel)
    yield "head_size", config.model.head_size, model.get_head_size()
    yield "vocab_size", config.model.vocab_size, model.get_vocab_size()
    yield "max_model_len (as given)", AUTO if auto else config.max_model_len, model.original_max_model_len
    if not (auto and fitted):
        yield (
            "max_model_len",
            config.model.max_position if auto else config.max_model_len,
            model.max_model_len,
        )
    yield "block_size", config.block_size, cache.block_size
    yield "num_blocks", config.num_blocks, cache.num_gpu_blocks_override
    yield "enable_prefix_caching", config.enable_prefix_caching, cache.enable_prefix_caching
    yield "max_num_seqs", config.max_num_seqs, scheduler.max_num_seqs
    yield "max_num_batched_tokens", config.max_num_batched_tokens, scheduler.max_num_batched_tokens
    yield "enable_chunked_prefill", config.enable_chunked_prefill, scheduler.enable_chunked_prefill
    threshold = scheduler.long_prefill_token_threshold
    yield "long_prefill_token_threshold", config.long_prefill_token_threshold, threshold
    reserve = scheduler.scheduler_reserve_full_isl
    yield "scheduler_reserve_full_isl", config.scheduler_reserve_full_isl, reserve
    yield "watermark", config.watermark, scheduler.watermark
    yield "scheduling_policy", config.scheduling_policy, scheduler.policy
    yield "async_scheduling", False, scheduler.async_scheduling
    yield "scheduler_cls", scheduler_cls, scheduler.scheduler_cls
    yield "use_v2_model_runner", False, vllm_config.use_v2_model_runner


def _scheduler_settings(scheduler: Scheduler, config: Config, class_: type) -> Iterator[Setting]:
    manager = scheduler.kv_cache_manager
    groups = scheduler.kv_cache_config.kv_cache_groups
    yield "scheduler class", qualified_name(class_), qualified_name(type(scheduler))
    yield "KV cache groups", ["FullAttentionSpec"], [type(g.kv_cache_spec).__name__ for g in groups]
    yield "max_num_seqs (scheduler)", config.max_num_seqs, scheduler.max_num_running_reqs
    yield "token budget (scheduler)", config.max_num_batched_tokens, scheduler.max_num_scheduled_tokens
    yield "policy (scheduler)", config.scheduling_policy, scheduler.policy.value
    yield "block_size (scheduler)", config.block_size, scheduler.block_size
    yield "enable_prefix_caching (manager)", config.enable_prefix_caching, manager.enable_caching


def _verify(settings: Iterator[Setting]) -> None:
    """Raises DriverError for a setting that does not stand as it was asked."""
    for name, asked, stands in settings:
        if asked != stands:
            raise DriverError(f"setting {name} did not stand: asked for {asked!r}, upstream has {stands!r}")

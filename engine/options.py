"""What a user chooses when the engine starts: upstream's flag names, and defaults that a first user can run."""

from __future__ import annotations

from typing import Any, Literal, cast

import msgspec

from engine.policies import Policies
from engine.wire import KV_BYTES, EngineConfig, ModelShape

DEFAULT_KV_BYTES = 1 << 30


class EngineOptions(msgspec.Struct, frozen=True):
    """One start of the engine. `max_num_batched_tokens` and `max_num_seqs` default as upstream's server on a CPU does.

    `kv_cache_memory_bytes` is null for DEFAULT_KV_BYTES; a block count (`num_gpu_blocks_override`) goes before it.
    """

    model: str
    dtype: str = "auto"  # auto: the weights' own
    device: str = "cpu"
    max_model_len: int | Literal["auto"] = "auto"
    block_size: int = 16  # tokens
    num_gpu_blocks_override: int | None = None  # the null block included
    kv_cache_memory_bytes: int | None = None
    max_num_seqs: int = 128
    max_num_batched_tokens: int = 2048
    enable_chunked_prefill: bool = True
    enable_prefix_caching: bool = True
    long_prefill_token_threshold: int = 0
    scheduler_reserve_full_isl: bool = True
    watermark: float = 0.0
    scheduling_policy: Literal["fcfs", "priority"] = "fcfs"
    seed: int = 0
    policies: Policies = Policies()
    plain: bool = False  # the plain twin of every fast path
    served_model_name: str | None = None
    generation_config: str = "auto"  # or vllm, or a folder
    override_generation_config: dict[str, Any] = {}

    def config(self, shape: ModelShape, own_dtype: str) -> EngineConfig:
        """The scheduler's configuration for a model of `shape` whose weights are of `own_dtype`."""
        dtype = own_dtype if self.dtype == "auto" else self.dtype
        if dtype not in KV_BYTES:
            raise ValueError(f"no dtype {dtype}")
        memory = self.kv_cache_memory_bytes
        return EngineConfig(
            model=shape,
            dtype=cast(Literal["float32", "float16", "bfloat16"], dtype),
            block_size=self.block_size,
            num_blocks=self.num_gpu_blocks_override,
            kv_cache_memory_bytes=DEFAULT_KV_BYTES if memory is None else memory,
            max_model_len=self.max_model_len,
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=self.max_num_batched_tokens,
            enable_chunked_prefill=self.enable_chunked_prefill,
            long_prefill_token_threshold=self.long_prefill_token_threshold,
            scheduler_reserve_full_isl=self.scheduler_reserve_full_isl,
            watermark=self.watermark,
            enable_prefix_caching=self.enable_prefix_caching,
            scheduling_policy=self.scheduling_policy,
        )

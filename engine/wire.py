"""What the engine's driver is asked: the scenario of docs/protocol.md as the engine's own types.

The engine knows nothing of the harness, so it has types of its own for the same JSON; an unknown or
missing key is an error here, because a scenario that is understood in part is played wrongly.
"""

from __future__ import annotations

from typing import Literal

import msgspec

KV_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


class ModelShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A decoder-only model with full attention in every layer, as far as its KV cache depends on it."""

    name: str
    num_layers: int
    num_kv_heads: int
    head_size: int
    max_position: int  # tokens
    vocab_size: int


class EngineConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The start-up configuration; docs/config.md gives units and upstream's names."""

    model: ModelShape
    dtype: Literal["float32", "float16", "bfloat16"]
    block_size: int
    num_blocks: int | None
    kv_cache_memory_bytes: int
    max_model_len: int | Literal["auto"]
    max_num_seqs: int
    max_num_batched_tokens: int
    enable_chunked_prefill: bool
    long_prefill_token_threshold: int
    scheduler_reserve_full_isl: bool
    watermark: float
    enable_prefix_caching: bool
    scheduling_policy: Literal["fcfs", "priority"]

    @property
    def bytes_per_block(self) -> int:
        """Bytes of one block over all layers, keys and values."""
        model = self.model
        per_token = 2 * model.num_kv_heads * model.head_size * KV_BYTES[self.dtype]
        return per_token * self.block_size * model.num_layers


class RequestSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One request of a timeline; `output[k]` is the forced k-th token."""

    id: str
    at: int
    arrival: int
    prompt: list[int]
    max_tokens: int
    min_tokens: int
    output: list[int]
    eos_token_id: int | None
    ignore_eos: bool
    stop_token_ids: list[int]
    priority: int
    cache_salt: str | None
    prompt_logprobs: int | None


class AbortSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An abort of request `id` in step `at`."""

    id: str
    at: int
    when: Literal["before_schedule", "before_update"]


class ResetSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A reset of the prefix cache before `schedule()` of step `at`."""

    at: int
    running: bool


class TimelineSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What happens to a running engine; lists are in file order."""

    requests: list[RequestSpec]
    aborts: list[AbortSpec]
    resets: list[ResetSpec]
    max_steps: int


class ScenarioSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One scenario; `timeline` is null at level plan."""

    id: str
    level: Literal["plan", "schedule"]
    config: EngineConfig
    timeline: TimelineSpec | None

"""The configurations as a scenario file gives them, with the default of every key that may be left out.

The tables for people are in docs/config.md; a test holds them together.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from parity.scenario import MAX_BLOCKS, Config, Json, Model, NonNegative, Positive, ServerConfig

MAX_STEPS = 2000


class ConfigForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`config` of a file of level plan or schedule; docs/config.md gives the units and upstream's names."""

    model: str
    dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    block_size: Positive = 16
    num_blocks: Annotated[int, Meta(ge=0, le=MAX_BLOCKS)] | None = None
    kv_cache_memory_bytes: NonNegative = 1 << 30
    max_model_len: Positive | Literal["auto"] = "auto"
    max_num_seqs: Positive = 16
    max_num_batched_tokens: Positive = 8192
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: NonNegative = 0
    scheduler_reserve_full_isl: bool = True
    watermark: Annotated[float, Meta(ge=0.0, lt=1.0)] = 0.0
    enable_prefix_caching: bool = True
    scheduling_policy: Literal["fcfs", "priority"] = "fcfs"


class ServerConfigForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`config` of a scenario file of level serve; docs/config.md gives the units and the flags."""

    model: str
    num_blocks: Annotated[int, Meta(ge=1, le=MAX_BLOCKS)]
    dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    block_size: Positive = 16
    max_model_len: Positive | Literal["auto"] = "auto"
    max_num_seqs: Positive = 16
    max_num_batched_tokens: Positive = 2048
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: NonNegative = 0
    scheduler_reserve_full_isl: bool = True
    enable_prefix_caching: bool = True
    scheduling_policy: Literal["fcfs", "priority"] = "fcfs"
    generation_config: dict[str, Json] | None = None
    override_generation_config: dict[str, Json] | None = None
    shutdown_timeout: NonNegative = 0


def config_defaults(form: type[ConfigForm | ServerConfigForm] = ConfigForm) -> dict[str, Any]:
    """Every key of `config` that has a default, with it, in the order of docs/config.md."""
    fields = msgspec.structs.fields(form)
    return {field.name: field.default for field in fields if not field.required}


def smallest_block_bytes(model: Model, block_size: int) -> int:
    """Bytes of a block of the narrowest dtype, keys and values over all layers: a bound on how many there can be."""
    return 2 * 2 * model.num_layers * model.num_kv_heads * model.head_size * block_size


def build_config(form: ConfigForm, model: Model) -> Config:
    """The explicit configuration: the form with its model's name replaced by the shape."""
    return Config(**{**msgspec.structs.asdict(form), "model": model})


def build_server_config(form: ServerConfigForm) -> ServerConfig:
    """The explicit configuration of a server."""
    return ServerConfig(**msgspec.structs.asdict(form))

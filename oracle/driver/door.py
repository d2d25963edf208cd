"""The ways into upstream: what a timeline does to it, whichever of its layers takes it.

A door holds no logic of upstream's and reads no observation; `config` opens one, `schedule` plays through it. The one
here is the scheduler's, which the driver steps by hand. The other, core.py, is upstream's own engine core around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from vllm.config import VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.utils.torch_utils import kv_cache_dtype_str_to_dtype
from vllm.v1.core.kv_cache_utils import (
    generate_scheduler_kv_cache_config,
    get_kv_cache_capacity,
    get_kv_cache_configs,
    get_request_block_hasher,
    init_none_hash,
    resolve_kv_cache_block_sizes,
)
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine import EngineCoreOutputs
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

from oracle.driver import state, wire

BlockHasher = Callable[[Request], list[bytes]]
Run = Callable[
    [SchedulerOutput], ModelRunnerOutput
]  # what stands for the model, between schedule() and the update
Outputs = dict[int, EngineCoreOutputs]


class Door(Protocol):
    """Upstream, started. What it raises is upstream's own, but for a Fault."""

    @property
    def scheduler(self) -> Scheduler: ...

    @property
    def capacity(self) -> tuple[int, float]:
        """Tokens that the KV cache holds, and requests of max_model_len that it holds at once."""

    def add(self, wanted: wire.Request, params: SamplingParams) -> Request:
        """Adds a request; the one that upstream made of it."""

    def abort(self, request_id: str) -> None:
        """Aborts one request, before a step."""

    def reset(self, running: bool) -> bool:
        """Resets the prefix cache; whether upstream says that it did."""

    def step(self, run: Run, late: Sequence[str]) -> Outputs:
        """One step: schedule(), `run`, the aborts of `late` one at a time, the update."""

    def take_aborted(self) -> list[wire.Count]:
        """The aborts since it was last asked, each with the free blocks right after it."""

    def close(self) -> None:
        """Ends what upstream started."""


OpenDoor = Callable[[VllmConfig, int], Door]  # the int: bytes of memory for the KV cache


class SchedulerDoor:
    """Upstream's scheduler, stepped by hand."""

    def __init__(self, scheduler: Scheduler, capacity: tuple[int, float], hasher: BlockHasher | None) -> None:
        self.scheduler = scheduler
        self.capacity = capacity
        self._block_hasher = hasher
        self._aborted: list[wire.Count] = []

    def add(self, wanted: wire.Request, params: SamplingParams) -> Request:
        request = Request(
            request_id=wanted.id,
            prompt_token_ids=list(wanted.prompt),
            sampling_params=params,
            pooling_params=None,
            arrival_time=float(wanted.arrival),
            cache_salt=wanted.cache_salt,
            priority=wanted.priority,
            block_hasher=self._block_hasher,
        )
        self.scheduler.add_request(request)
        return request

    def abort(self, request_id: str) -> None:
        """One call an abort: several ids in one call would free their blocks in the order of a set."""
        self.scheduler.finish_requests(request_id, RequestStatus.FINISHED_ABORTED)
        self._aborted.append((request_id, state.free_blocks(self.scheduler)))

    def reset(self, running: bool) -> bool:
        done: bool = self.scheduler.reset_prefix_cache(reset_running_requests=running)
        return done

    def step(self, run: Run, late: Sequence[str]) -> Outputs:
        output = self.scheduler.schedule()
        sampled = run(output)
        for request_id in late:
            self.abort(request_id)
        outputs: Outputs = self.scheduler.update_from_output(output, sampled)
        return outputs

    def take_aborted(self) -> list[wire.Count]:
        aborted, self._aborted = self._aborted, []
        return aborted

    def close(self) -> None:
        """A scheduler alone started nothing."""


def open_scheduler(vllm_config: VllmConfig, available_bytes: int, *, log_stats: bool) -> SchedulerDoor:
    """What upstream's engine core does at its start, up to the scheduler."""
    kv_cache_config = _plan_kv_cache(vllm_config, available_bytes)
    block_size, hash_block_size = resolve_kv_cache_block_sizes(kv_cache_config, vllm_config)
    scheduler = vllm_config.scheduler_config.get_scheduler_cls()(
        vllm_config=vllm_config,
        kv_cache_config=kv_cache_config,
        structured_output_manager=StructuredOutputManager(vllm_config),
        block_size=block_size,
        hash_block_size=hash_block_size,
        log_stats=log_stats,
    )
    capacity = get_kv_cache_capacity(vllm_config, kv_cache_config)
    return SchedulerDoor(scheduler, capacity, _block_hasher(vllm_config, hash_block_size))


def kv_cache_specs(vllm_config: VllmConfig) -> dict[str, FullAttentionSpec]:
    """What the attention layers of the model tell of their KV cache, a layer each."""
    model_config, parallel_config = vllm_config.model_config, vllm_config.parallel_config
    spec = FullAttentionSpec(
        block_size=vllm_config.cache_config.block_size,
        num_kv_heads=model_config.get_num_kv_heads(parallel_config),
        head_size=model_config.get_head_size(),
        dtype=kv_cache_dtype_str_to_dtype(vllm_config.cache_config.cache_dtype, model_config),
    )
    return {f"layers.{i}": spec for i in range(model_config.get_num_layers(parallel_config))}


def _plan_kv_cache(vllm_config: VllmConfig, available_bytes: int) -> KVCacheConfig:
    """Upstream's KV cache plan for one worker that has `available_bytes`; sets `num_gpu_blocks`."""
    kv_cache_config = generate_scheduler_kv_cache_config(
        get_kv_cache_configs(vllm_config, [kv_cache_specs(vllm_config)], [available_bytes])
    )
    vllm_config.cache_config.num_gpu_blocks = kv_cache_config.num_blocks
    return kv_cache_config


def _block_hasher(vllm_config: VllmConfig, hash_block_size: int) -> BlockHasher | None:
    if not vllm_config.cache_config.enable_prefix_caching:
        return None
    hash_function = get_hash_fn_by_name(vllm_config.cache_config.prefix_caching_hash_algo)
    init_none_hash(hash_function)
    hasher: BlockHasher = get_request_block_hasher(hash_block_size, hash_function)
    return hasher

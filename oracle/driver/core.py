"""Upstream's own engine core as the door: its code starts the scheduler, takes requests, aborts, and steps.

What the scheduler's door (door.py) does by hand is upstream's here, so that the two doors can be held against each
other. Only the device is missing: an executor that says what the workers would say of their memory, and returns the
forced tokens in place of a model's. Everything is in this process and synchronous: no batch queue, one batch at a time.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from vllm.config import VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine import EngineCoreRequest
from vllm.v1.engine import core as upstream_core
from vllm.v1.executor.abstract import Executor
from vllm.v1.kv_cache_interface import FullAttentionSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request

from oracle.driver import state, wire
from oracle.driver.door import Outputs, Run, kv_cache_specs
from oracle.driver.errors import DriverError

# What a start and an end ask of the workers that a device would do and no observation depends on.
OF_THE_DEVICE = frozenset(
    {"update_max_model_len", "initialize_from_config", "compile_or_warm_up_model", "shutdown"}
)


class ForcedExecutor(Executor):  # type: ignore[misc]  # upstream carries no types here
    """Workers without a device: `available_bytes` of memory, and `run` in place of the model."""

    def __init__(self, vllm_config: VllmConfig, *, available_bytes: int) -> None:
        self._available_bytes = available_bytes
        self.run: Run | None = None
        super().__init__(vllm_config)

    def _init_executor(self) -> None:
        """There is no worker to start."""

    def get_kv_cache_specs(self) -> list[dict[str, FullAttentionSpec]]:
        return [kv_cache_specs(self.vllm_config)]

    def determine_available_memory(self) -> list[int]:
        return [self._available_bytes]

    def execute_model(
        self, scheduler_output: SchedulerOutput, non_block: bool = False
    ) -> Future[ModelRunnerOutput]:
        if self.run is None or not non_block:
            raise DriverError("upstream ran a batch outside a step")
        future: Future[ModelRunnerOutput] = Future()
        future.set_result(self.run(scheduler_output))
        return future

    def collective_rpc(self, method: Any, *_args: Any, **_kwargs: Any) -> list[Any]:
        if method not in OF_THE_DEVICE:
            raise DriverError(f"upstream asked its workers for {method}, which the driver does not know")
        return []

    def check_health(self) -> None:
        """Nothing can fail."""


class ObservedCore(upstream_core.EngineCore):  # type: ignore[misc]  # upstream carries no types here
    """Upstream's engine core, noting its aborts.

    It empties a step's queue of aborts into one call, whose blocks come free in the order of a set; docs/protocol.md
    aborts one request at a time, so the call is taken apart.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.noted_aborts: list[wire.Count] = []
        super().__init__(*args, **kwargs)

    def abort_requests(self, request_ids: list[str]) -> None:
        for request_id in request_ids:
            super().abort_requests([request_id])
            self.noted_aborts.append((request_id, state.free_blocks(self.scheduler)))


class CoreDoor:
    """Upstream's engine core, called as its in-process client calls it."""

    def __init__(self, core: ObservedCore, executor: ForcedExecutor) -> None:
        self._core = core
        self._executor = executor

    @property
    def scheduler(self) -> Scheduler:
        return self._core.scheduler

    @property
    def capacity(self) -> tuple[int, float]:
        """As the engine core itself calculated it at its start."""
        cache_config = self._core.vllm_config.cache_config
        return cache_config.kv_cache_size_tokens, cache_config.kv_cache_max_concurrency

    def add(self, wanted: wire.Request, params: SamplingParams) -> Request:
        asked = EngineCoreRequest(
            request_id=wanted.id,
            prompt_token_ids=list(wanted.prompt),
            mm_features=None,
            sampling_params=params,
            pooling_params=None,
            arrival_time=float(wanted.arrival),
            lora_request=None,
            cache_salt=wanted.cache_salt,
            data_parallel_rank=None,
            priority=wanted.priority,
        )
        request, wave = self._core.preprocess_add_request(asked)
        self._core.add_request(request, wave)
        return request

    def abort(self, request_id: str) -> None:
        self._core.abort_requests([request_id])

    def reset(self, running: bool) -> bool:
        done: bool = self._core.reset_prefix_cache(reset_running_requests=running)
        return done

    def step(self, run: Run, late: Sequence[str]) -> Outputs:
        """Late aborts come in while the model runs, and the core's own step takes them from its queue.

        A core without requests does not schedule: then nothing runs, and they are aborts between two steps.
        """
        left = list(late)

        def run_and_abort(output: SchedulerOutput) -> ModelRunnerOutput:
            sampled = run(output)
            if left:
                self._core.aborts_queue.put_nowait(list(left))
                left.clear()
            return sampled

        self._executor.run = run_and_abort
        outputs: Outputs
        outputs, executed = self._core.step_fn()
        self._core.post_step(executed)
        self._executor.run = None
        if left:
            self._core.abort_requests(left)
        return outputs

    def take_aborted(self) -> list[wire.Count]:
        aborted, self._core.noted_aborts = self._core.noted_aborts, []
        return aborted

    def close(self) -> None:
        self._core.shutdown()


def open_core(vllm_config: VllmConfig, available_bytes: int, *, log_stats: bool) -> CoreDoor:
    """Upstream's engine core on `vllm_config`. Raises DriverError where it would not step synchronously."""
    _leave_the_garbage_alone()
    executor_class = functools.partial(ForcedExecutor, available_bytes=available_bytes)
    core = ObservedCore(vllm_config, executor_class, log_stats=log_stats)
    if core.batch_queue is not None:
        raise DriverError("upstream's engine core has a batch queue, so its steps are not one batch each")
    return CoreDoor(core, core.model_executor)


def _leave_the_garbage_alone() -> None:
    """Leaves out what a core does to its whole process's garbage when it starts and ends.

    It collects four times and keeps what is left from the collector: 0.6 s a scenario where each has a core of its own.
    """
    upstream_core.freeze_gc_heap = lambda: None
    upstream_core.cleanup_dist_env_and_memory = lambda: None

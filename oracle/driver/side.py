"""Upstream as the side that answers: it says who it is, and plays scenarios.

Upstream is imported on first use, so that the process can read its first line, and say what is wrong
with it, before it pays for that.
"""

from __future__ import annotations

import functools
import os
import platform
from typing import TYPE_CHECKING, Literal

from oracle.driver.environment import SOURCE_VARIABLE
from oracle.driver.errors import DriverError
from oracle.driver.model import ModelFolders
from oracle.driver.wire import Config, End, Hello, Level, Model, Plan, Scenario, ScheduleEnd

if TYPE_CHECKING:
    from oracle.driver.door import OpenDoor
    from oracle.driver.plan import Planned
    from oracle.driver.protocol import Emit

DoorName = Literal["scheduler", "core"]
LEVELS: list[Level] = ["plan", "schedule"]
SOURCES = ("wheel", "checkout")
WARM_UP = Config(
    model=Model("warm-up", num_layers=1, num_kv_heads=1, head_size=8, max_position=64, vocab_size=64),
    dtype="float32",
    block_size=16,
    num_blocks=8,
    kv_cache_memory_bytes=1 << 20,
    max_model_len="auto",
    max_num_seqs=1,
    max_num_batched_tokens=64,
    enable_chunked_prefill=True,
    long_prefill_token_threshold=0,
    scheduler_reserve_full_isl=True,
    watermark=0.0,
    enable_prefix_caching=True,
    scheduling_policy="fcfs",
)


class Upstream:
    """A Side (oracle/driver/protocol.py)."""

    def __init__(
        self, door: DoorName = "scheduler", *, debug: bool = False, scheduler_cls: str | None = None
    ) -> None:
        self._folders = ModelFolders()
        self._door = door
        self._debug = debug
        self._scheduler_cls = scheduler_cls

    def hello(self) -> Hello:
        """Who answers. Pays for the import and for the first start-up, so that scenarios do not."""
        source = _source()

        import torch
        import vllm

        from oracle.driver.replacement import blamed, told

        with blamed(self._scheduler_cls):
            planned = self._planned(WARM_UP)
            if planned.refusal is not None:
                raise DriverError(f"upstream does not start: {told(planned.refusal)}")
            assert planned.started is not None, "neither started nor refused"
            planned.started.door.close()
        runner = "v2" if planned.started.vllm_config.use_v2_model_runner else "v1"
        return Hello(
            name=self._scheduler_cls or "vllm",
            version=str(vllm.__version__),
            levels=LEVELS,
            model_runner=runner,
            python=platform.python_version(),
            torch=str(torch.__version__),
            source=source,
        )

    def run(self, scenario: Scenario, emit: Emit) -> Plan | ScheduleEnd:
        """Plays `scenario`; see docs/protocol.md. Raises DriverError."""
        from oracle.driver.replacement import blamed

        with blamed(self._scheduler_cls):
            return self._played(scenario, emit)

    def _played(self, scenario: Scenario, emit: Emit) -> Plan | ScheduleEnd:
        from oracle.driver.schedule import play

        planned = self._planned(scenario.config)
        timeline = scenario.timeline
        if planned.started is None:
            if timeline is None:
                return planned.plan
            nothing = [(request.id, 0) for request in timeline.requests]
            return ScheduleEnd(planned.plan, End("refused", None, None, nothing))
        door = planned.started.door
        try:
            if timeline is None:
                return planned.plan
            return ScheduleEnd(planned.plan, play(door, timeline, emit, debug=self._debug))
        finally:
            door.close()

    def _planned(self, config: Config) -> Planned:
        from oracle.driver.plan import make_plan

        folder = self._folders.folder(config.model, config.dtype)
        return make_plan(config, folder, self._opener(), self._scheduler_cls)

    def _opener(self) -> OpenDoor:
        """Upstream keeps statistics by default; the scheduler's door goes without where nobody reads them."""
        if self._door == "core":
            from oracle.driver.core import open_core

            return functools.partial(open_core, log_stats=True)
        from oracle.driver.door import open_scheduler

        return functools.partial(open_scheduler, log_stats=self._debug)


def _source() -> str:
    """Where upstream's Python comes from: the wheel, unless an overlay says that it is a checkout."""
    source = os.environ.get(SOURCE_VARIABLE, SOURCES[0])
    if source not in SOURCES:
        raise DriverError(f"{SOURCE_VARIABLE} is {source!r}, and not one of {', '.join(SOURCES)}")
    return source

"""Plays a timeline against the scheduler with forced tokens, and notes what docs/protocol.md lists.

No weights and no clock: the k-th token of a request is the k-th of its forced output, and how the
timeline ends is decided by state alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from engine.capacity import PlanOk
from engine.ending import Watch
from engine.integrity import check_integrity
from engine.request import Request
from engine.scheduler import Scheduler, StepPlan, ids
from engine.wire import AbortSpec, EngineConfig, RequestSpec, ResetSpec, TimelineSpec

logger = logging.getLogger("nullblock.engine")

Step = dict[str, Any]
End = dict[str, Any]
OnStep = Callable[[Step], None]


def play(
    config: EngineConfig, plan: PlanOk, spec: TimelineSpec, on_step: OnStep | None = None
) -> tuple[list[Step], End]:
    """Every step until the timeline ends, and its end; a scheduler that cannot even be built ends it with `error`."""
    try:
        timeline = Timeline(config, plan, spec)
    except Exception as error:  # noqa: BLE001 - an engine that raises is an observation
        logger.error("before the first step: %s: %s", type(error).__name__, error)
        outputs = [[request.id, 0] for request in spec.requests]
        return [], {"kind": "error", "period": None, "error": type(error).__name__, "outputs": outputs}
    return timeline.play(on_step)


class Timeline:
    """One scheduler and what is still to happen to it. `play` may be called once."""

    def __init__(self, config: EngineConfig, plan: PlanOk, spec: TimelineSpec) -> None:
        self.scheduler = Scheduler(config, plan.num_blocks, plan.max_model_len)
        self._hash_block_size = config.block_size if config.enable_prefix_caching else None
        self._spec = spec
        self._forced = {request.id: request.output for request in spec.requests}
        self._received = dict.fromkeys(self._forced, 0)  # tokens
        self._arrivals: dict[int, list[RequestSpec]] = {}
        self._early: dict[int, list[AbortSpec]] = {}
        self._late: dict[int, list[AbortSpec]] = {}
        self._resets: dict[int, list[ResetSpec]] = {}
        for request in spec.requests:
            self._arrivals.setdefault(request.at, []).append(request)
        for abort in spec.aborts:
            due = self._early if abort.when == "before_schedule" else self._late
            due.setdefault(abort.at, []).append(abort)
        for reset in spec.resets:
            self._resets.setdefault(reset.at, []).append(reset)
        self._last_arrival = max(self._arrivals)
        self._last_event = max(self._arrivals | self._early | self._late | self._resets)
        self._watch = Watch()

    def play(self, on_step: OnStep | None = None) -> tuple[list[Step], End]:
        """Every step until the timeline ends, and its end; `on_step` gets each step as it happens."""
        steps: list[Step] = []
        for at in range(self._spec.max_steps):
            try:
                step, emitted = self._step(at)
                check_integrity(self.scheduler)
            except Exception as error:  # noqa: BLE001 - an engine that raises is an observation
                logger.error("step %d: %s: %s", at, type(error).__name__, error)
                return steps, self._end("error", error=type(error).__name__)
            steps.append(step)
            if on_step is not None:
                on_step(step)
            if not self.scheduler.requests and at >= self._last_arrival:
                return steps, self._end("done")
            if emitted:
                self._watch.forget()
            elif at >= self._last_event:
                ending = self._watch.judge(at, self.scheduler, bool(step["scheduled"]))
                if ending is not None:
                    return steps, self._end(*ending)
        return steps, self._end("limit")

    def _step(self, at: int) -> tuple[Step, bool]:
        """Play step `at`; also says whether a token was emitted."""
        scheduler = self.scheduler
        for spec in self._arrivals.get(at, ()):
            scheduler.add_request(Request(spec, self._hash_block_size))
        aborted = [self._abort(abort) for abort in self._early.get(at, ())]
        reset = [
            scheduler.reset_prefix_cache(preempt_running=reset.running) for reset in self._resets.get(at, ())
        ]
        keys_before = dict(scheduler.pool.hash_of)
        plan = scheduler.schedule()
        step = self._scheduled(plan, keys_before)
        late = [self._abort(abort) for abort in self._late.get(at, ())]
        tokens = self._sample(plan)
        stopped = scheduler.update_from_output(plan, tokens)
        for request_id in tokens:
            self._received[request_id] += 1
        finished = [[request.id, request.status.value, request.stop_reason] for request in stopped]
        return {
            "aborted": aborted,
            "reset": reset,
            **step,
            "aborted_late": late,
            "finished": finished,
            "free_after": scheduler.pool.num_free_blocks,
        }, bool(tokens)

    def _abort(self, abort: AbortSpec) -> list[Any]:
        self.scheduler.abort(abort.id)
        return [abort.id, self.scheduler.pool.num_free_blocks]

    def _scheduled(self, plan: StepPlan, keys_before: dict[int, bytes]) -> Step:
        """What is seen between `schedule()` and the update."""
        scheduler = self.scheduler
        key_of, tables = scheduler.pool.hash_of.get, scheduler.kv.tables
        return {
            "scheduled": [[request_id, count] for request_id, count in plan.scheduled.items()],
            "new": [request_id for request_id in plan.admitted if request_id not in plan.resumed],
            "resumed": plan.resumed,
            "preempted": plan.preempted,
            "cached": [[request_id, count] for request_id, count in plan.admitted.items()],
            "evicted": sorted(block for block, key in keys_before.items() if key_of(block) != key),
            "blocks": [[request.id, list(tables[request.id])] for request in scheduler.running],
            "free": scheduler.pool.num_free_blocks,
            "running": ids(scheduler.running),
            "waiting": ids(scheduler.waiting),
        }

    def _sample(self, plan: StepPlan) -> dict[str, int]:
        """One forced token for each scheduled request whose known tokens are all computed now."""
        requests = self.scheduler.requests
        tokens: dict[str, int] = {}
        for request_id in plan.scheduled:
            request = requests.get(request_id)
            if request is not None and request.num_computed_tokens >= request.num_tokens:
                tokens[request_id] = self._forced[request_id][request.num_output_tokens]
        return tokens

    def _end(self, kind: str, period: int | None = None, error: str | None = None) -> End:
        outputs = [[request_id, count] for request_id, count in self._received.items()]
        return {"kind": kind, "period": period, "error": error, "outputs": outputs}

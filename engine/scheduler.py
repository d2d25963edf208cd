"""The scheduler: which request computes how many tokens in a step, who is admitted and who is preempted.

There is no prefill phase and no decode phase: in every step each request's computed tokens try to catch up
with its known tokens, within the step's token budget and the pool's blocks. Running requests come first;
when blocks run out they preempt one another, and a step that preempted admits nobody.
Mirrors vllm/v1/core/sched/scheduler.py::Scheduler in synchronous mode.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.block_pool import BlockPool
from engine.kv_manager import KVManager
from engine.request import Request, Status
from engine.request_queue import RequestQueue, make_queue
from engine.wire import EngineConfig


class StepPlan:
    """What one `schedule()` decided.

    `scheduled` maps request ids to tokens, in the order of scheduling; `budget` is what is left of the
    step's tokens. `admitted` are those that entered the running list, each with the tokens that the prefix
    cache supplied; `resumed` says which of them had been preempted before. `preempted` are those of this step
    in order, after those of a reset before it.
    """

    __slots__ = ("admitted", "budget", "preempted", "resumed", "scheduled")

    def __init__(self, budget: int, preempted: list[str]) -> None:
        self.budget = budget
        self.preempted = preempted
        self.scheduled: dict[str, int] = {}
        self.admitted: dict[str, int] = {}
        self.resumed: list[str] = []


class Scheduler:
    """Requests, their queues and the pool; `num_blocks` includes the null block, lengths are in tokens."""

    __slots__ = (
        "_preempted",
        "_priority",
        "_reserve_full_isl",
        "_threshold",
        "chunked",
        "kv",
        "max_model_len",
        "max_num_seqs",
        "pool",
        "requests",
        "running",
        "token_budget",
        "waiting",
    )

    def __init__(self, config: EngineConfig, num_blocks: int, max_model_len: int) -> None:
        self.max_model_len = max_model_len
        self.max_num_seqs = config.max_num_seqs
        self.token_budget = config.max_num_batched_tokens
        self.chunked = config.enable_chunked_prefill
        self._threshold = config.long_prefill_token_threshold
        self._reserve_full_isl = config.scheduler_reserve_full_isl
        self._priority = config.scheduling_policy == "priority"
        self.pool = BlockPool(num_blocks, config.enable_prefix_caching)
        self.kv = KVManager(self.pool, config.block_size, max_model_len, config.watermark)
        self.requests: dict[str, Request] = {}
        self.waiting: RequestQueue = make_queue(config.scheduling_policy)
        self.running: list[Request] = []
        self._preempted: list[str] = []

    def add_request(self, request: Request) -> None:
        """Queue a request. An id that is still alive is the caller's fault (AssertionError)."""
        if request.id in self.requests:
            raise AssertionError(f"duplicate request id {request.id!r}")
        self.waiting.add(request)
        self.requests[request.id] = request

    def abort(self, request_id: str) -> None:
        """End a request wherever it is; unknown and ended ids are ignored. Mirrors ::finish_requests."""
        request = self.requests.get(request_id)
        if request is None:
            return
        if request.status is Status.RUNNING:
            self.running.remove(request)
        else:
            self.waiting.remove(request)
        request.status = Status.FINISHED_ABORTED
        self._forget(request)

    def reset_prefix_cache(self, *, preempt_running: bool) -> bool:
        """Empty the prefix cache; without `preempt_running` it is refused while a block is in use.

        The youngest is preempted first, so that the queue's front keeps the running order.
        Mirrors ::reset_prefix_cache.
        """
        if preempt_running:
            while self.running:
                self._preempt(self.running.pop())
        return self.pool.reset()

    def schedule(self) -> StepPlan:
        """Decide one step and count its tokens as computed. Mirrors ::schedule and ::_update_after_schedule."""
        step = StepPlan(self.token_budget, self._preempted)
        if self._schedule_running(step):
            self._schedule_waiting(step)
        for request_id, num_tokens in step.scheduled.items():
            self.requests[request_id].num_computed_tokens += num_tokens
        self._preempted = []
        return step

    def update_from_output(self, step: StepPlan, tokens: Mapping[str, int]) -> list[Request]:
        """Append the sampled tokens in the order of scheduling; returns the requests that stopped, in order.

        A request that was aborted since `schedule()` is passed over. A step of no or negative tokens is
        AssertionError, as upstream's own assertion. Mirrors ::update_from_output.
        """
        stopped: list[Request] = []
        for request_id, num_tokens in step.scheduled.items():
            if num_tokens <= 0:
                raise AssertionError(f"request {request_id!r} was scheduled for {num_tokens} tokens")
            request = self.requests.get(request_id)
            if request is None or request_id not in tokens:
                continue
            request.append(tokens[request_id])
            if request.check_stop(self.max_model_len):
                self._forget(request)
                stopped.append(request)
        if stopped:
            self.running = [request for request in self.running if request not in stopped]
        return stopped

    def _schedule_running(self, step: StepPlan) -> bool:
        """Give each running request its next tokens; False when one was preempted to make room.

        `index` points one past a victim that was passed over in this step (it had nothing to compute), so the
        request after the current one is passed over as well: upstream adjusts it for scheduled victims only.
        """
        running = self.running
        undisturbed = True
        index = 0
        while index < len(running) and step.budget > 0:
            request = running[index]
            num_new = self._next_chunk(request, step.budget)
            if num_new == 0:
                index += 1
                continue
            while not self.kv.allocate_slots(request, num_new):
                undisturbed = False
                victim = self._pop_victim()
                if victim.id in step.scheduled:
                    step.budget += step.scheduled.pop(victim.id)
                    index -= 1
                self._preempt(victim)
                if victim is request:
                    return False
            step.scheduled[request.id] = num_new
            step.budget -= num_new
            index += 1
        return undisturbed

    def _next_chunk(self, request: Request, budget: int) -> int:
        """Tokens of a running request's next step; negative beyond `max_model_len`, as upstream has it."""
        num_new = request.num_tokens - request.num_computed_tokens
        if 0 < self._threshold < num_new:
            num_new = self._threshold
        return min(num_new, budget, self.max_model_len - request.num_computed_tokens - 1)

    def _schedule_waiting(self, step: StepPlan) -> None:
        """Admit from the waiting queue until the first request that does not fit."""
        waiting, running, kv = self.waiting, self.running, self.kv
        while len(waiting) and step.budget > 0 and len(running) < self.max_num_seqs:
            request = waiting.peek()
            found = kv.find_cached(request)
            num_cached = len(found) * kv.block_size
            num_new = request.num_tokens - num_cached
            if 0 < self._threshold < num_new:
                num_new = self._threshold
            if num_new > step.budget:
                if not self.chunked:
                    return
                num_new = step.budget
            if not kv.allocate_slots(
                request,
                num_new,
                found,
                full_sequence_must_fit=self._reserve_full_isl,
                keep_watermark=bool(running),
            ):
                return
            self._admit(waiting.pop(), num_cached, num_new, step)

    def _admit(self, request: Request, num_cached: int, num_new: int, step: StepPlan) -> None:
        self.running.append(request)
        step.admitted[request.id] = num_cached
        if request.status is Status.PREEMPTED:
            step.resumed.append(request.id)
        step.scheduled[request.id] = num_new
        step.budget -= num_new
        request.status = Status.RUNNING
        request.num_computed_tokens = num_cached

    def _pop_victim(self) -> Request:
        """Take the request to preempt out of the running list.

        FCFS: the last one. Priority: the largest (priority, arrival), the first of the list on a tie.
        """
        if not self._priority:
            return self.running.pop()
        victim = max(self.running, key=_victim_key)
        self.running.remove(victim)
        return victim

    def _preempt(self, request: Request) -> None:
        """Free a request's blocks and queue it for recomputation. Mirrors ::_preempt_request."""
        self.kv.free(request)
        request.status = Status.PREEMPTED
        request.num_computed_tokens = 0
        self.waiting.put_back(request)
        self._preempted.append(request.id)

    def _forget(self, request: Request) -> None:
        self.kv.free(request)
        del self.requests[request.id]


def _victim_key(request: Request) -> tuple[int, int]:
    return (request.priority, request.arrival)


def ids(requests: Iterable[Request]) -> list[str]:
    """The ids of requests, in their order."""
    return [request.id for request in requests]

"""Level schedule: plays a timeline on upstream's scheduler, with forced tokens in place of a model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from vllm.sampling_params import SamplingParams
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus

from oracle.driver import state, wire
from oracle.driver.config import Started
from oracle.driver.ending import StateHistory
from oracle.driver.errors import DriverError, UpstreamRaised, upstream_code

Emit = Callable[[wire.Step], None]


def play(started: Started, timeline: wire.Timeline, emit: Emit) -> wire.End:
    """Plays `timeline` to its ending, giving each step to `emit` as it happens. Raises DriverError."""
    player = Player(started, timeline)
    for number in range(timeline.max_steps):
        try:
            step = player.step(number)
        except UpstreamRaised as raised:
            return player.end("error", error=type(raised.cause).__name__)
        emit(step)
        end = player.ending(number, step)
        if end is not None:
            return end
    return player.end("limit")


class Player:
    """One timeline in the middle of being played."""

    def __init__(self, started: Started, timeline: wire.Timeline) -> None:
        self._scheduler = started.scheduler
        self._block_hasher = started.block_hasher
        self._requests = {request.id: request for request in timeline.requests}
        self._arrivals = _by_step(timeline.requests)
        self._aborts = _by_step(timeline.aborts)
        self._resets = _by_step(timeline.resets)
        self._live: dict[str, Request] = {}  # upstream's requests, the ended ones included
        self._received = dict.fromkeys(self._requests, 0)  # tokens
        self._preempted: list[str] = []
        self._emitted = False
        self._history = StateHistory()
        self._watch_preemptions()

    def step(self, number: int) -> wire.Step:
        """Plays step `number`. Raises UpstreamRaised where upstream's own code did."""
        scheduler = self._scheduler
        self._preempted.clear()
        for request in self._arrivals.pop(number, ()):
            self._arrive(request)
        aborts = self._aborts.pop(number, ())
        aborted = [self._abort(abort) for abort in aborts if abort.when == "before_schedule"]
        reset = [self._reset(reset) for reset in self._resets.pop(number, ())]

        before, hashes = state.statuses(scheduler), state.block_hashes(scheduler)
        already = len(self._preempted)
        with upstream_code():
            output = scheduler.schedule()
        self._check_preempted(before, self._preempted[already:])
        running, waiting = state.running(scheduler), state.waiting(scheduler)
        admitted = [r for r in running if before[r.request_id] != RequestStatus.RUNNING]
        scheduled = output.num_scheduled_tokens
        evicted = state.evicted_blocks(scheduler, hashes)
        free = state.free_blocks(scheduler)
        blocks = [(r.request_id, state.block_table(scheduler, r.request_id)) for r in running]
        cached = [(r.request_id, r.num_computed_tokens - scheduled[r.request_id]) for r in admitted]

        aborted_late = [self._abort(abort) for abort in aborts if abort.when == "before_update"]
        finished = self._update(output)
        return wire.Step(
            aborted=aborted,
            reset=reset,
            scheduled=list(scheduled.items()),
            new=[r.request_id for r in admitted if before[r.request_id] == RequestStatus.WAITING],
            resumed=[r.request_id for r in admitted if before[r.request_id] == RequestStatus.PREEMPTED],
            preempted=list(self._preempted),
            cached=cached,
            evicted=evicted,
            blocks=blocks,
            free=free,
            running=[r.request_id for r in running],
            waiting=[r.request_id for r in waiting],
            aborted_late=aborted_late,
            finished=finished,
            free_after=state.free_blocks(scheduler),
        )

    def ending(self, number: int, step: wire.Step) -> wire.End | None:
        """How the timeline ended with `step`, None when it goes on."""
        if not self._arrivals and not self._scheduler.requests:
            return self.end("done")
        if self._emitted:
            self._history.forget()
            return None
        if self._arrivals or self._aborts or self._resets:
            return None
        verdict = self._history.judge(number, bool(step.scheduled), state.full_state(self._scheduler))
        return None if verdict is None else self.end(verdict[0], period=verdict[1])

    def end(self, kind: wire.EndKind, period: int | None = None, error: str | None = None) -> wire.End:
        return wire.End(kind=kind, period=period, error=error, outputs=list(self._received.items()))

    def _arrive(self, wanted: wire.Request) -> None:
        self._history.forget()
        with upstream_code():
            request = Request(
                request_id=wanted.id,
                prompt_token_ids=list(wanted.prompt),
                sampling_params=_sampling_params(wanted),
                pooling_params=None,
                arrival_time=float(wanted.arrival),
                cache_salt=wanted.cache_salt,
                priority=wanted.priority,
                block_hasher=self._block_hasher,
            )
            self._scheduler.add_request(request)
        self._live[wanted.id] = request

    def _abort(self, abort: wire.Abort) -> wire.Count:
        """One call an abort: several ids in one call would free their blocks in the order of a set."""
        self._history.forget()
        with upstream_code():
            self._scheduler.finish_requests(abort.id, RequestStatus.FINISHED_ABORTED)
        return abort.id, state.free_blocks(self._scheduler)

    def _reset(self, reset: wire.Reset) -> bool:
        self._history.forget()
        before, already = state.statuses(self._scheduler), len(self._preempted)
        with upstream_code():
            done: bool = self._scheduler.reset_prefix_cache(reset_running_requests=reset.running)
        self._check_preempted(before, self._preempted[already:])
        return done

    def _update(self, output: SchedulerOutput) -> list[tuple[str, str, int | None]]:
        """Gives upstream one forced token for each request that has come to the end of what it knows."""
        ids = list(output.num_scheduled_tokens)
        forced = ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={request_id: index for index, request_id in enumerate(ids)},
            sampled_token_ids=[self._forced_tokens(request_id) for request_id in ids],
        )
        with upstream_code():
            outputs = self._scheduler.update_from_output(output, forced)
        finished: list[tuple[str, str, int | None]] = []
        self._emitted = False
        for answer in outputs[0].outputs if 0 in outputs else ():
            self._received[answer.request_id] += len(answer.new_token_ids)
            self._emitted |= bool(answer.new_token_ids)
            if answer.finish_reason is not None:
                finished.append((answer.request_id, str(answer.finish_reason), answer.stop_reason))
        return finished

    def _forced_tokens(self, request_id: str) -> list[int]:
        request = self._live[request_id]
        if request.is_prefill_chunk:
            return []
        return [self._requests[request_id].output[request.num_output_tokens]]

    def _watch_preemptions(self) -> None:
        """Notes each preemption of this scheduler as it happens; upstream reports them as a set."""
        preempt = self._scheduler._preempt_request

        def preempt_and_note(request: Request, *args: Any, **kwargs: Any) -> Any:
            self._preempted.append(request.request_id)
            return preempt(request, *args, **kwargs)

        self._scheduler._preempt_request = preempt_and_note

    def _check_preempted(self, before: dict[str, RequestStatus], noted: list[str]) -> None:
        """Raises DriverError where the noted preemptions are not those that the requests' states show."""
        shown = {
            request_id
            for request_id, status in state.statuses(self._scheduler).items()
            if before.get(request_id) == RequestStatus.RUNNING and status == RequestStatus.PREEMPTED
        }
        if set(noted) != shown or len(noted) != len(shown):
            raise DriverError(f"preemptions noted {noted} but states show {sorted(shown)}")


def _sampling_params(wanted: wire.Request) -> SamplingParams:
    params = SamplingParams(
        max_tokens=wanted.max_tokens,
        min_tokens=wanted.min_tokens,
        ignore_eos=wanted.ignore_eos,
        stop_token_ids=list(wanted.stop_token_ids),
        prompt_logprobs=wanted.prompt_logprobs,
    )
    params.update_from_generation_config({}, wanted.eos_token_id)
    return params


def _by_step(events: list[Any]) -> dict[int, list[Any]]:
    steps: defaultdict[int, list[Any]] = defaultdict(list)
    for event in events:
        steps[event.at].append(event)
    return dict(steps)

"""Level schedule: plays a timeline on upstream through a door, with forced tokens in place of a model."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from vllm.sampling_params import SamplingParams
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus

from oracle.driver import state, wire
from oracle.driver.door import Door, Outputs
from oracle.driver.ending import StateHistory
from oracle.driver.errors import DriverError, UpstreamRaised, driver_code, upstream_code
from oracle.driver.native import plain
from oracle.driver.protocol import Emit


def play(door: Door, timeline: wire.Timeline, emit: Emit, *, debug: bool) -> wire.End:
    """Plays `timeline` to its ending, giving each step to `emit` as it happens. Raises DriverError.

    With `debug` each step goes with upstream's native output.
    """
    player = Player(door, timeline, debug=debug)
    for number in range(timeline.max_steps):
        try:
            step = player.step(number)
        except UpstreamRaised as raised:
            return player.end("error", error=type(raised.cause).__name__)
        emit(step, player.native)
        end = player.ending(number, step)
        if end is not None:
            return end
    return player.end("limit")


@dataclass(frozen=True)
class _Before:
    """What is remembered from before a `schedule()`."""

    statuses: dict[str, RequestStatus]
    hashes: list[Any]
    preempted: int  # requests that were preempted in this step already


@dataclass(frozen=True)
class _Seen:
    """What is read between `schedule()` and the update; the fields are those of wire.Step."""

    scheduled: list[wire.Count]
    new: wire.Ids
    resumed: wire.Ids
    preempted: wire.Ids
    cached: list[wire.Count]
    evicted: list[int]
    blocks: list[tuple[str, list[int]]]
    free: int
    running: wire.Ids
    waiting: wire.Ids


class Player:
    """One timeline in the middle of being played. `native` is the last step's, with `debug` only."""

    def __init__(self, door: Door, timeline: wire.Timeline, *, debug: bool) -> None:
        self._door = door
        self._scheduler = door.scheduler
        self._requests = {request.id: request for request in timeline.requests}
        self._arrivals = _by_step(timeline.requests)
        self._aborts = _by_step(timeline.aborts)
        self._resets = _by_step(timeline.resets)
        self._live: dict[str, Request] = {}  # upstream's requests, the ended ones included
        self._received = dict.fromkeys(self._requests, 0)  # tokens
        self._preempted: list[str] = []
        self._emitted = False
        self._history = StateHistory()
        self._debug = debug
        self.native: dict[str, Any] | None = None
        self._watch_preemptions()

    def step(self, number: int) -> wire.Step:
        """Plays step `number`. Raises UpstreamRaised where upstream's own code did."""
        self._preempted.clear()
        for request in self._arrivals.pop(number, ()):
            self._arrive(request)
        aborts = self._aborts.pop(number, ())
        aborted = self._abort([abort.id for abort in aborts if abort.when == "before_schedule"])
        reset = [self._reset(reset) for reset in self._resets.pop(number, ())]
        late = [abort.id for abort in aborts if abort.when == "before_update"]
        seen, outputs = self._run(late)
        finished = self._receive(outputs)
        return wire.Step(
            aborted=aborted,
            reset=reset,
            scheduled=seen.scheduled,
            new=seen.new,
            resumed=seen.resumed,
            preempted=seen.preempted,
            cached=seen.cached,
            evicted=seen.evicted,
            blocks=seen.blocks,
            free=seen.free,
            running=seen.running,
            waiting=seen.waiting,
            aborted_late=self._door.take_aborted(),
            finished=finished,
            free_after=state.free_blocks(self._scheduler),
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
            self._live[wanted.id] = self._door.add(wanted, _sampling_params(wanted))

    def _abort(self, ids: list[str]) -> list[wire.Count]:
        for request_id in ids:
            self._history.forget()
            with upstream_code():
                self._door.abort(request_id)
        return self._door.take_aborted()

    def _reset(self, reset: wire.Reset) -> bool:
        self._history.forget()
        before, already = state.statuses(self._scheduler), len(self._preempted)
        with upstream_code():
            done = self._door.reset(reset.running)
        self._check_preempted(before, self._preempted[already:])
        return done

    def _run(self, late: list[str]) -> tuple[_Seen, Outputs]:
        """One step of upstream's, read between its halves; a door that has nothing to schedule is read after it."""
        scheduler = self._scheduler
        before = _Before(state.statuses(scheduler), state.block_hashes(scheduler), len(self._preempted))
        seen: list[_Seen] = []
        scheduled: Any = None

        def run(output: SchedulerOutput) -> ModelRunnerOutput:
            nonlocal scheduled
            with driver_code():
                seen.append(self._look(before, output.num_scheduled_tokens))
                if self._debug:
                    scheduled = plain(output)
                return self._forced(output)

        if late:
            self._history.forget()
        with upstream_code():
            outputs = self._door.step(run, late)
        if not seen:
            seen.append(self._look(before, {}))
        if self._debug:
            self.native = {"scheduler_output": scheduled, "engine_core_outputs": plain(outputs)}
        return seen[0], outputs

    def _look(self, before: _Before, scheduled: dict[str, int]) -> _Seen:
        scheduler = self._scheduler
        self._check_preempted(before.statuses, self._preempted[before.preempted :])
        running = state.running(scheduler)
        admitted = [r for r in running if before.statuses[r.request_id] != RequestStatus.RUNNING]
        was = {r.request_id: before.statuses[r.request_id] for r in admitted}
        return _Seen(
            scheduled=list(scheduled.items()),
            new=[name for name, status in was.items() if status == RequestStatus.WAITING],
            resumed=[name for name, status in was.items() if status == RequestStatus.PREEMPTED],
            preempted=list(self._preempted),
            cached=[(r.request_id, r.num_computed_tokens - scheduled[r.request_id]) for r in admitted],
            evicted=state.evicted_blocks(scheduler, before.hashes),
            blocks=[(r.request_id, state.block_table(scheduler, r.request_id)) for r in running],
            free=state.free_blocks(scheduler),
            running=[r.request_id for r in running],
            waiting=[r.request_id for r in state.waiting(scheduler)],
        )

    def _forced(self, output: SchedulerOutput) -> ModelRunnerOutput:
        """One forced token for each request that has come to the end of what it knows."""
        ids = list(output.num_scheduled_tokens)
        return ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={request_id: index for index, request_id in enumerate(ids)},
            sampled_token_ids=[self._forced_tokens(request_id) for request_id in ids],
        )

    def _receive(self, outputs: Outputs) -> list[tuple[str, str, int | None]]:
        """Takes the tokens that came out; who finished, and why."""
        finished: list[tuple[str, str, int | None]] = []
        self._emitted = False
        for answer in outputs[0].outputs if 0 in outputs else ():
            self._received[answer.request_id] += len(answer.new_token_ids)
            self._emitted |= bool(answer.new_token_ids)
            if answer.finish_reason is not None:
                finished.append((answer.request_id, str(answer.finish_reason), answer.stop_reason))
        return finished

    def _forced_tokens(self, request_id: str) -> list[int]:
        request, forced = self._live[request_id], self._requests[request_id].output
        if request.is_prefill_chunk:
            return []
        if request.num_output_tokens >= len(forced):
            raise DriverError(f"{request_id} was scheduled after the last of its {len(forced)} forced tokens")
        return [forced[request.num_output_tokens]]

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
            raise DriverError(
                f"preemptions noted {noted} in calls of _preempt_request, but states show {sorted(shown)}"
            )


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

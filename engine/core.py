"""The loop that serves: one thread that owns scheduler, model runner and sampler, and survives any request.

Other threads speak to it through an inbox; it speaks to them through each request's sink. A step that schedules
nothing and preempts nobody leaves the state as it is, so the next one would too: the thread then sleeps until
the inbox has something. That is what becomes of a request that waits for ever (mirrored behaviour).
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Iterable

from engine.capacity import PlanOk
from engine.execution import Executed, Runner, execute
from engine.limits import check_startable
from engine.live import CoreRequest, Live
from engine.outputs import FinishReason, RequestOutput, Sink
from engine.policies import Policies
from engine.request import Status
from engine.sampler import Sampler
from engine.scheduler import Scheduler, StepPlan
from engine.stats import CoreStats, Counters
from engine.wire import EngineConfig

logger = logging.getLogger("nullblock.engine")

DEAD = "the engine has stopped, its log says why: start it again"
STOP_SECONDS = 2.0  # how long `stop` waits for the step under way before it answers in the thread's place
REASONS: dict[Status, FinishReason] = {Status.FINISHED_STOPPED: "stop", Status.FINISHED_LENGTH: "length"}


class EngineCore:
    """Requests in, outputs out. A sink is called from the core's thread, in order, and must not block.

    The last output of a request, and only that, has a finish reason, unless the sink ended the request by its answer;
    `stop` may deliver it from its own thread. Whatever a step or a sink raises is survived, BaseException included:
    a panic of a library in another language is one. What ends the thread all the same answers everybody first.
    """

    def __init__(
        self,
        runner: Runner,
        config: EngineConfig,
        plan: PlanOk,
        policies: Policies | None = None,
        *,
        seed: int = 0,
        device: str = "cpu",
        plain: bool = False,
    ) -> None:
        self.config = config
        self.plan = plan
        self.policies = policies or Policies()
        self._runner = runner
        self._sampler = Sampler(seed=seed, device=device, plain=plain)
        self._device = device
        self._arrivals = itertools.count()
        # Guards everything below. Sinks are called under it, so that a request's last output is its last one.
        self._changed = threading.Condition()
        self._inbox: deque[Live | str] = deque()
        self._lives: dict[str, Live] = {}
        self._stopping = False
        self._dead = False  # the thread has ended, and nobody asked it to
        self._idle = True  # the last step left everything as it was
        self._counters = Counters()
        self._scheduler = self._new_scheduler()
        self._snapshot = self._count()
        self._thread = threading.Thread(target=self._loop, name="nullblock-core", daemon=True)

    def start(self) -> None:
        """Begin to serve. May be called once."""
        self._thread.start()

    def add(self, asked: CoreRequest, sink: Sink) -> None:
        """Queue a request. One that cannot be queued ends at once with `error`; after `stop`, with `abort`.

        A core whose thread has died answers `error` to everybody.
        """
        try:
            check_startable(len(asked.prompt), self.plan.max_model_len)
            hashed = self.config.block_size if self.config.enable_prefix_caching else None
            live = Live(asked, sink, next(self._arrivals), hashed, self._device)
        except Exception as error:  # noqa: BLE001 - a value that nobody thought of fails its own request only
            sink(RequestOutput(asked.id, (), finish_reason="error", error=str(error)))
            return
        with self._changed:
            if self._stopping:
                self._end(live, "abort")
                self._publish()
            elif self._dead:
                self._end(live, "error", DEAD)
            else:
                self._inbox.append(live)
                self._changed.notify_all()

    def abort(self, ids: Iterable[str]) -> None:
        """End requests wherever they are, each with `abort`; unknown and ended ids are ignored.

        Such an end is not counted: who asks for it has left. Mirrors ::OutputProcessor.abort_requests.
        """
        with self._changed:
            self._inbox.extend(ids)
            self._changed.notify_all()

    def drain(self, timeout: float) -> bool:
        """Wait until nothing is in flight, at most `timeout` seconds; whether that came to pass."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._lives and not self._inbox, timeout)

    def stop(self) -> None:
        """End the thread and abort what is in flight: every sink has had its last output when this returns.

        A step under way is waited for STOP_SECONDS; after that its requests are answered all the same.
        """
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(STOP_SECONDS)
        with self._changed:
            self._end_all("abort")

    def stats(self) -> CoreStats:
        """The latest counts; what is still in the inbox waits as well. Never waits for a step."""
        with self._changed:
            return self._snapshot.with_arrivals(sum(isinstance(item, Live) for item in self._inbox))

    @property
    def alive(self) -> bool:
        """Whether requests are served."""
        return self._thread.is_alive() and not self._stopping and not self._dead

    def _new_scheduler(self) -> Scheduler:
        return Scheduler(self.config, self.plan.num_blocks, self.plan.max_model_len)

    def _loop(self) -> None:
        try:
            while self._turn():
                pass
        except BaseException:
            logger.critical("the engine's thread ends", exc_info=True)
            with self._changed:
                self._dead = True
                self._end_all("error", DEAD)

    def _turn(self) -> bool:
        """The inbox and one step; what neither could survive alone ends all that is in flight. False when stopping."""
        try:
            if not self._take_inbox():
                return False
            self._step()
        except BaseException:  # nothing that is raised on this thread asks it to end
            logger.exception("a step failed outside any request; everything in flight ends")
            self._start_over()
        return True

    def _start_over(self) -> None:
        with self._changed:
            self._scheduler = self._new_scheduler()
            self._idle = True
            self._end_all("error", "the engine had to start over")

    def _take_inbox(self) -> bool:
        """Do what other threads asked for; if a step would change nothing, sleep until there is something.

        False when stopping.
        """
        with self._changed:
            while self._idle and not self._inbox and not self._stopping:
                self._changed.wait()
            if self._stopping:
                return False
            while self._inbox:
                item = self._inbox.popleft()
                if isinstance(item, str):
                    self._abort_one(item)
                else:
                    self._accept(item)
            self._idle = False
            self._publish()
            return True

    def _accept(self, live: Live) -> None:
        if live.id in self._lives:
            self._end(live, "error", f"a request {live.id!r} is in flight already")
        else:
            self._lives[live.id] = live
            self._scheduler.add_request(live.request)

    def _abort_one(self, request_id: str) -> None:
        live = self._lives.get(request_id)
        if live is not None:
            self._scheduler.abort(request_id)
            del self._lives[request_id]
            self._tell(live, live.end("abort"))

    def _step(self) -> None:
        """One step of the scheduler. Whoever sees that a request has ended sees it counted."""
        plan = self._scheduler.schedule()
        lives = dict(self._lives)
        for request_id in plan.preempted:
            lives[request_id].preemptions += 1
        if not plan.scheduled:
            with self._changed:
                self._idle = not plan.preempted
                self._publish()
            return
        for request_id, num_cached in plan.admitted.items():
            live = lives[request_id]
            if live.num_cached is None:
                live.num_cached = num_cached
        done = execute(plan, self._scheduler, lives, self._runner, self._sampler)
        with self._changed:
            self._counters.steps += 1
            self._settle(plan, done)
            self._publish()

    def _settle(self, plan: StepPlan, done: Executed) -> None:
        """Give the step's tokens to scheduler and sinks; take out what failed, and what it may have spoiled."""
        for request_id, error in done.failed.items():
            self._scheduler.abort(request_id)
            live = self._lives.pop(request_id, None)
            if live is not None:
                self._end(live, "error", error)
        self._scheduler.update_from_output(plan, done.tokens)
        for request_id, token_id in done.tokens.items():
            live = self._lives.get(request_id)
            if live is not None:
                self._emit(live, token_id, done)
        if done.spoiled:
            self._scheduler.reset_prefix_cache(preempt_running=True)

    def _emit(self, live: Live, token_id: int, done: Executed) -> None:
        counters, output = self._counters, live.state.output
        output.append(token_id)
        counters.generation_tokens += 1
        counters.preemptions += live.preemptions
        live.preemptions = 0
        if len(output) == 1:
            counters.prompt_tokens += live.num_prompt
            counters.cached_tokens += live.num_cached or 0
            counters.saw_first_token(time.monotonic() - live.added_at)
        reason = REASONS.get(live.request.status)
        ended = self._tell(live, live.token(token_id, done.logprobs[live.id], reason))
        if ended is None:
            return
        self._lives.pop(live.id, None)
        if reason is None:
            self._scheduler.abort(live.id)
        counters.finished[ended] += 1

    def _end(self, live: Live, reason: FinishReason, error: str | None = None) -> None:
        self._counters.finished[reason] += 1
        self._tell(live, live.end(reason, error))

    def _end_all(self, reason: FinishReason, error: str | None = None) -> None:
        """End whatever is in flight or still in the inbox. Nobody is forgotten, even if the counts cannot be made."""
        ended = [*self._lives.values(), *(item for item in self._inbox if isinstance(item, Live))]
        self._lives.clear()
        self._inbox.clear()
        for live in ended:
            self._end(live, reason, error)
        self._publish()

    def _tell(self, live: Live, output: RequestOutput) -> FinishReason | None:
        """Call the sink; why the request has ended, if it has. One whose sink raises is aborted.

        Mirrors vllm/v1/engine/output_processor.py::OutputProcessor.process_outputs: where core and front know
        different reasons the front's is counted.
        """
        try:
            return live.sink(output) or output.finish_reason
        except BaseException:
            logger.exception("the sink of request %s failed; the request is aborted", live.id)
            return output.finish_reason or "abort"

    def _count(self) -> CoreStats:
        scheduler = self._scheduler
        return self._counters.snapshot(
            len(scheduler.running),
            len(scheduler.waiting),
            scheduler.pool.num_free_blocks,
            scheduler.pool.num_blocks,
            stalled=self._idle and bool(self._lives),
        )

    def _publish(self) -> None:
        self._snapshot = self._count()
        if not self._lives:
            self._changed.notify_all()

"""The behaviours of level schedule that a hunt tells apart, and which of them an observation shows.

Each is read from what was observed and from the scenario, never from a side's inside, so both sides are asked alike. Where an
observation leaves it open (which request's need preempted another), a name stands only for what cannot have been otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator

from parity.fuzz.behaviours.follow import Life, Moment, Run, follow
from parity.observation import PlanOk, Schedule
from parity.scenario import Config, Request, Scenario

VOCABULARY = (
    # how the timeline ended
    "done",
    "refused",
    "stall",
    "livelock",
    "limit",
    "error",
    # who is admitted, and who is not
    "waits-for-a-seat",  # max_num_seqs run
    "waits-for-blocks",
    "head-of-line-blocked",  # and others wait behind the one that does not fit
    "held-by-watermark",  # it would fit but for the watermark
    "held-by-full-length",  # its next chunk would fit, its whole length does not
    "held-by-chunking-off",  # more tokens than the step has left
    "admission-skipped",  # since the step preempted
    "admitted-beyond-room",  # without the full-length reserve, longer than what is free
    "empty-step",  # nothing to do, and the timeline goes on
    # a step's tokens
    "budget-exhausted",
    "nothing-to-compute",  # a running request gets no token, with budget left
    "cut-by-threshold",
    "chunked-prefill",
    "two-chunks-in-a-step",
    "chunk-beside-decode",
    "prompt-beyond-length",
    # preemption
    "preempted",
    "preempted-twice-in-a-step",
    "preempted-again",
    "preempted-in-prefill",
    "self-preempted",
    "preempted-beside-finish",
    "preempted-by-priority",  # not the youngest of the running
    "preempted-after-its-turn",  # it had its tokens of this step already
    "resumed",
    "resumed-in-chunks",
    "resumed-with-hit",
    "resumed-beside-new",
    # the prefix cache
    "hit",
    "hit-in-use",  # on blocks that another request holds
    "hit-revived",  # on blocks that nobody held
    "hit-on-output",  # beyond the prompt that the blocks were computed for
    "full-hit",  # all that a request may read
    "full-hit-minus-one",  # its last block, though full, is not read
    "evicted",
    "evicted-beside-hit",
    "pool-full",
    "salted-miss",
    "prompt-logprobs-skip-cache",
    # priorities
    "priority-inversion",  # somebody waits behind a running request that is less urgent
    "overtaken",  # somebody is admitted before an earlier one
    "tie-of-priorities",
    "tie-of-stamps",
    # how requests end
    "length",
    "last-slot-of-model",
    "eos",
    "eos-ignored",
    "stop-token",
    "min-tokens-held-back",
    "stop-on-last-token",
    # aborts
    "abort-absent",
    "abort-waiting",
    "abort-running",
    "abort-in-prefill",
    "abort-preempted",
    "abort-ended",
    "abort-before-update",
    # resets of the cache
    "reset-done",
    "reset-refused",
    "reset-with-running",
)


def reached(scenario: Scenario, observation: Schedule) -> frozenset[str]:
    """The names of VOCABULARY that the observation shows."""
    names: set[str] = {observation.end.kind}
    if not isinstance(observation.plan, PlanOk):
        return frozenset(names)
    config, limit = scenario.config, observation.plan.max_model_len
    watermark = int(config.watermark * observation.plan.num_blocks)
    for moment in follow(scenario, observation):
        names.update(_tokens(moment, config, limit))
        names.update(_preemptions(moment, config))
        names.update(_hits(moment, config))
        names.update(_ends(moment, limit))
        names.update(_events(moment))
        if moment.step.waiting:
            names.update(_waits(moment, config, limit, watermark))
    return frozenset(names)


def _waits(moment: Moment, config: Config, limit: int, watermark: int) -> Iterator[str]:
    step, lives = moment.step, moment.lives
    left = config.max_num_batched_tokens - sum(tokens for _, tokens in step.scheduled)
    if config.scheduling_policy == "priority":
        yield from _ranks(moment)
    if left <= 0:
        return
    if moment.victims:
        if any(name not in step.preempted for name in step.waiting):
            yield "admission-skipped"
        return
    if len(step.running) >= config.max_num_seqs:
        yield "waits-for-a-seat"
        return
    head = lives[step.waiting[0]]
    needed = -(-min(head.known, limit) // config.block_size)
    chunk = min(head.known, config.long_prefill_token_threshold or head.known)
    if chunk > left and not config.enable_chunked_prefill:
        yield "held-by-chunking-off"
        return
    yield "head-of-line-blocked" if len(step.waiting) > 1 else "waits-for-blocks"
    if needed <= step.free:
        if watermark and step.running:
            yield "held-by-watermark"
    elif config.scheduler_reserve_full_isl and -(-min(chunk, left) // config.block_size) <= step.free:
        yield "held-by-full-length"


def _ranks(moment: Moment) -> Iterator[str]:
    lives, step = moment.lives, moment.step
    waiting = [lives[name].request for name in step.waiting]
    running = [lives[name].request for name in step.running]
    first = min(request.priority for request in waiting)
    if any(request.priority > first for request in running):
        yield "priority-inversion"
    admitted = [lives[name].request for name in step.new]
    if any((late.at, late.arrival) > (early.at, early.arrival) for late in admitted for early in waiting):
        yield "overtaken"
    ranks = [request.priority for request in waiting]
    if len(set(ranks)) < len(ranks):
        yield "tie-of-priorities"
    stamps = [(request.priority, request.arrival) for request in waiting]
    if len(set(stamps)) < len(stamps):
        yield "tie-of-stamps"


def _tokens(moment: Moment, config: Config, limit: int) -> Iterator[str]:
    step, runs = moment.step, moment.runs
    if not runs:
        yield "empty-step"
    if step.free == 0 and step.running:
        yield "pool-full"
    spent = sum(run.tokens for run in runs)
    if spent >= config.max_num_batched_tokens:
        yield "budget-exhausted"
    elif len(runs) < len(step.running):
        yield "nothing-to-compute"
    cut = [run for run in runs if run.missing > 0]
    if cut:
        yield "chunked-prefill"
        if len(cut) > 1:
            yield "two-chunks-in-a-step"
        if any(run.tokens == 1 and run.missing == 0 and run.life.outputs for run in runs):
            yield "chunk-beside-decode"
        if any(run.tokens == config.long_prefill_token_threshold for run in cut):
            yield "cut-by-threshold"
    if any(run.life.known > limit for run in runs):
        yield "prompt-beyond-length"
    for name in (*step.new, *step.resumed):
        held = next(blocks for owner, blocks in step.blocks if owner == name)
        needed = -(-min(moment.lives[name].known, limit) // config.block_size)
        if needed - len(held) > step.free:
            yield "admitted-beyond-room"


def _preemptions(moment: Moment, config: Config) -> Iterator[str]:
    step, victims = moment.step, moment.victims
    if step.preempted:
        yield "preempted"
        if any(moment.lives[name].preemptions > 1 for name in step.preempted):
            yield "preempted-again"
    if victims:
        yield from _victims(moment, config)
    if not step.resumed:
        return
    yield "resumed"
    if step.new:
        yield "resumed-beside-new"
    if any(tokens and name in step.resumed for name, tokens in step.cached):
        yield "resumed-with-hit"
    if any(run.missing > 0 and run.life.request.id in step.resumed for run in moment.runs):
        yield "resumed-in-chunks"


def _victims(moment: Moment, config: Config) -> Iterator[str]:
    """What can be said of those whom `schedule()` preempted; it does so only to give blocks to a running request."""
    step, victims = moment.step, moment.victims
    if len(victims) > 1:
        yield "preempted-twice-in-a-step"
    if step.finished:
        yield "preempted-beside-finish"
    if any(moment.lives[name].outputs == 0 for name in victims):
        yield "preempted-in-prefill"
    gained = [name for name, blocks in step.blocks if len(blocks) > len(moment.tables.get(name, ()))]
    if not gained:
        yield "self-preempted"
    if config.scheduling_policy != "priority":
        return
    order = {name: place for place, name in enumerate(moment.running)}
    youngest = moment.running[-len(victims) :]
    if set(youngest) != set(victims):
        yield "preempted-by-priority"
    if gained and any(all(order[victim] < order[name] for name in gained) for victim in victims):
        yield "preempted-after-its-turn"


def _hits(moment: Moment, config: Config) -> Iterator[str]:
    step = moment.step
    hits = [(name, tokens) for name, tokens in step.cached if tokens]
    if step.evicted:
        yield "evicted"
        if hits:
            yield "evicted-beside-hit"
    for name, tokens in hits:
        yield "hit"
        yield from _hit(moment, config, name, tokens)
    if config.enable_prefix_caching:
        for name, tokens in step.cached:
            if not tokens:
                yield from _misses(moment, config.block_size, name)


def _hit(moment: Moment, config: Config, name: str, tokens: int) -> Iterator[str]:
    life, size = moment.lives[name], config.block_size
    tables = dict(moment.step.blocks)
    first = tables[name][0]
    in_use = any(first in blocks for owner, blocks in moment.step.blocks if owner != name)
    yield "hit-in-use" if in_use else "hit-revived"
    if tokens == (life.known - 1) // size * size:
        yield "full-hit"
        if life.known % size == 0:
            yield "full-hit-minus-one"
    prompt = life.request.prompt
    if life.preemptions == 0 and any(
        len(other.request.prompt) < tokens and prompt[: len(other.request.prompt)] == other.request.prompt
        for other in moment.lives.values()
        if other is not life and other.outputs
    ):
        yield "hit-on-output"


def _misses(moment: Moment, size: int, name: str) -> Iterator[str]:
    """Why a request found nothing although a running one, before it in the order, had computed the same first block."""
    request = moment.lives[name].request
    if len(request.prompt) <= size:
        return
    for run in moment.runs:
        other = run.life.request
        if other is request:
            return
        if run.start + run.tokens >= size and other.prompt[:size] == request.prompt[:size]:
            if other.cache_salt != request.cache_salt:
                yield "salted-miss"
            elif request.prompt_logprobs is not None:
                yield "prompt-logprobs-skip-cache"


def _ends(moment: Moment, limit: int) -> Iterator[str]:
    lives = moment.lives
    ended = {name: (reason, stop) for name, reason, stop in moment.step.finished}
    for run in moment.runs:
        life = run.life
        request = life.request
        if life.state != "running" or run.missing > 0:
            continue
        token = request.output[life.outputs] if life.outputs < len(request.output) else None
        if request.id not in ended:
            yield from _held_back(request, token)
    for name, (reason, stop) in ended.items():
        life = lives[name]
        if reason == "stop":
            yield "eos" if stop is None else "stop-token"
            if life.outputs + 1 == life.request.max_tokens:
                yield "stop-on-last-token"
        else:
            yield "length"
            if life.known + 1 >= limit:
                yield "last-slot-of-model"


def _held_back(request: Request, token: int | None) -> Iterator[str]:
    """A token that ends other requests, and did not end this one."""
    if token is None:
        return
    if token == request.eos_token_id and request.ignore_eos:
        yield "eos-ignored"
    elif token == request.eos_token_id or token in request.stop_token_ids:
        yield "min-tokens-held-back"


def _events(moment: Moment) -> Iterator[str]:
    for abort, life, state in moment.aborted:
        if state in ("finished", "aborted"):
            yield "abort-ended"
            continue
        yield f"abort-{state}"
        if state == "running":
            if abort.when == "before_update":
                yield "abort-before-update"
            if _in_prefill(life, moment.runs):
                yield "abort-in-prefill"
    for done in moment.step.reset:
        yield "reset-done" if done else "reset-refused"
    if moment.reset_victims:
        yield "reset-with-running"


def _in_prefill(life: Life, runs: list[Run]) -> bool:
    """Whether the request had computed some of its tokens, and not all of them."""
    computed = next((run.start + run.tokens for run in runs if run.life is life), life.computed)
    return 0 < computed < life.known

"""Computes what a step scheduled, and finds the culprit when a step fails, so that it fails alone.

A failed row leaves blocks whose keys promise values that were never written. What reads one of them, in the same
step or by the prefix cache later, would read garbage: such rows yield nothing, and the step says so.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from engine.live import Live
from engine.model_runner import Logits, Row
from engine.outputs import TokenLogprobs
from engine.sampler import Sampled, Sampler
from engine.scheduler import Scheduler, StepPlan

logger = logging.getLogger("nullblock.engine")

MOST_PROMPT_LOGITS = 512  # positions; of a vocabulary of 49152 they are 100 MB in float32


class Runner(Protocol):
    """What the core needs of a model runner."""

    def execute(self, rows: Sequence[Row]) -> Logits:
        """Compute the rows, writing keys and values through the block tables. Running a row again is harmless."""


class Executed:
    """What a step yielded: request id to token, its logprobs, and to why it failed.

    `spoiled` says that a row failed whose blocks others may find: all that runs must be computed again.
    """

    __slots__ = ("failed", "logprobs", "spoiled", "tokens")

    def __init__(self) -> None:
        self.tokens: dict[str, int] = {}
        self.logprobs: dict[str, TokenLogprobs | None] = {}
        self.failed: dict[str, str] = {}
        self.spoiled = False


def execute(
    plan: StepPlan, scheduler: Scheduler, lives: Mapping[str, Live], runner: Runner, sampler: Sampler
) -> Executed:
    """Run the model and sample for all that `plan` scheduled, in its order; never raises for what a row does."""
    rows = [_row(lives[request_id], count, scheduler) for request_id, count in plan.scheduled.items()]
    seeded = [state for row in rows if (state := lives[row.request_id].state).generator is not None]
    before = [state.generator.get_state() for state in seeded]
    done = Executed()
    try:
        _run(rows, lives, runner, sampler, done)
    except BaseException as error:  # noqa: BLE001 - whatever a request provokes must not end the loop
        logger.warning("a step of %d requests failed (%s); trying each alone", len(rows), _line(error))
        for state, old in zip(seeded, before, strict=True):
            state.generator.set_state(old)
        done = Executed()
        _run_alone(rows, scheduler, lives, runner, sampler, done)
    return done


def _row(live: Live, count: int, scheduler: Scheduler) -> Row:
    request = live.request
    end = request.num_computed_tokens
    start = end - count
    return Row(
        request_id=live.id,
        token_ids=request.all_token_ids[start:end],
        start=start,
        block_table=scheduler.kv.tables[live.id],
        sample=end >= request.num_tokens,
        prompt_logits=live.wants_prompt_logits(start),
    )


def _run(
    rows: Sequence[Row], lives: Mapping[str, Live], runner: Runner, sampler: Sampler, done: Executed
) -> None:
    ahead, rows = _split(rows)
    for part in ahead:
        _keep_prompt_logprobs([part], runner.execute([part]), lives)
    logits = runner.execute(rows)
    _keep_prompt_logprobs(rows, logits, lives)
    sampled = _sample(rows, logits, lives, sampler)
    sampling = [row.request_id for row in rows if row.sample]
    done.tokens.update(zip(sampling, sampled.token_ids, strict=True))
    done.logprobs.update(zip(sampling, sampled.logprobs, strict=True))


def _split(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Parts to compute one by one before the step, and what is left of the step.

    No call then answers the prompt logits of more than MOST_PROMPT_LOGITS positions (and one a row, where there are
    more rows than that leaves room for). A row that wants them reads no block but its own (Request.reads_cache), so
    that it may go ahead of the others; who reads its blocks in this step still comes after it.
    """
    ahead: list[Row] = []
    left: list[Row] = []
    room = MOST_PROMPT_LOGITS
    for row in rows:
        length = len(row.token_ids)
        stays = max(1, min(length, room)) if row.prompt_logits else length
        if row.prompt_logits:
            room = max(room - stays, 0)
        cut = length - stays
        starts = range(0, cut, MOST_PROMPT_LOGITS)
        ahead += [_part(row, at, min(at + MOST_PROMPT_LOGITS, cut), sample=False) for at in starts]
        left.append(_part(row, cut, length, sample=row.sample) if cut else row)
    return ahead, left


def _part(row: Row, begin: int, end: int, *, sample: bool) -> Row:
    """Tokens `begin` to `end` of a row as a row."""
    return msgspec.structs.replace(
        row, token_ids=row.token_ids[begin:end], start=row.start + begin, sample=sample
    )


def _keep_prompt_logprobs(rows: Sequence[Row], logits: Logits, lives: Mapping[str, Live]) -> None:
    for row in rows:
        if row.prompt_logits:
            lives[row.request_id].keep_prompt_logprobs(row.start, logits.prompt[row.request_id])


def _sample(rows: Sequence[Row], logits: Logits, lives: Mapping[str, Live], sampler: Sampler) -> Sampled:
    states = [lives[row.request_id].state for row in rows if row.sample]
    return sampler.sample(logits.last, states) if states else Sampled([], [])


def _run_alone(
    rows: Sequence[Row],
    scheduler: Scheduler,
    lives: Mapping[str, Live],
    runner: Runner,
    sampler: Sampler,
    done: Executed,
) -> None:
    """One row after the other, in order: a row reads only blocks of its own, or of rows before it."""
    garbage: set[int] = set()
    for row in rows:
        written = row.block_table[row.start // scheduler.kv.block_size :]
        if not garbage.isdisjoint(row.block_table):
            garbage.update(written)
            done.spoiled = True
            continue
        try:
            _run([row], lives, runner, sampler, done)
        except BaseException as error:
            logger.exception("request %s failed", row.request_id)
            done.failed[row.request_id] = _line(error)
            garbage.update(written)
            done.spoiled |= any(block in scheduler.pool.hash_of for block in written)


def _line(error: BaseException) -> str:
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__

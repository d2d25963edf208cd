"""What tests read off an observation: small, named facts in the numbers of the reports (steps count from 0)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from parity.observation import Observation, PlanError, PlanOk, Schedule


def plan(observation: Observation) -> PlanOk | PlanError:
    return observation.plan if isinstance(observation, Schedule) else observation


def kind(observation: Observation) -> str:
    """`ok` or the error's kind of a plan; the ending of a schedule."""
    if isinstance(observation, Schedule):
        return observation.end.kind
    return "ok" if isinstance(observation, PlanOk) else observation.kind


def schedule(observation: Observation) -> Schedule:
    assert isinstance(observation, Schedule)
    return observation


def preempted(observation: Observation) -> list[tuple[int, str]]:
    """(step, id) in the order of preemption."""
    return [(at, id_) for at, step in enumerate(schedule(observation).steps) for id_ in step.preempted]


def started(observation: Observation) -> dict[str, int]:
    """The step in which each request was first scheduled."""
    return {id_: at for at, step in enumerate(schedule(observation).steps) for id_ in step.new}


def resumed(observation: Observation) -> list[tuple[int, str]]:
    return [(at, id_) for at, step in enumerate(schedule(observation).steps) for id_ in step.resumed]


def cached(observation: Observation) -> list[tuple[str, int]]:
    """(id, tokens) of each admission in order."""
    return [(id_, tokens) for step in schedule(observation).steps for id_, tokens in step.cached]


def finished(observation: Observation) -> dict[str, tuple[int, str]]:
    """The step and the reason of each request's end."""
    return {
        id_: (at, reason)
        for at, step in enumerate(schedule(observation).steps)
        for id_, reason, _ in step.finished
    }


def first_blocks(observation: Observation) -> dict[str, list[int]]:
    """The block table of each request right after its latest admission."""
    tables: dict[str, list[int]] = {}
    for step in schedule(observation).steps:
        tables.update((id_, ids) for id_, ids in step.blocks if id_ in step.new or id_ in step.resumed)
    return tables


def empty_steps(observation: Observation) -> int:
    return sum(not step.scheduled for step in schedule(observation).steps)


FACTS: dict[str, Callable[[Observation], Any]] = {
    "kind": kind,
    "estimate": lambda seen: plan(seen).estimated_max_model_len,  # type: ignore[union-attr]
    "length": lambda seen: plan(seen).max_model_len,  # type: ignore[union-attr]
    "blocks": lambda seen: plan(seen).num_blocks,  # type: ignore[union-attr]
    "usable": lambda seen: plan(seen).usable_blocks,  # type: ignore[union-attr]
    "label": lambda seen: plan(seen).concurrency_label,  # type: ignore[union-attr]
    "tokens": lambda seen: plan(seen).kv_cache_size_tokens,  # type: ignore[union-attr]
    "warnings": lambda seen: plan(seen).warnings,
    "steps": lambda seen: len(schedule(seen).steps),
    "outputs": lambda seen: dict(schedule(seen).end.outputs),
    "period": lambda seen: schedule(seen).end.period,
    "preempted": preempted,
    "started": started,
    "resumed": resumed,
    "cached": cached,
    "finished": finished,
    "first blocks": first_blocks,
    "empty steps": empty_steps,
    "free at the end": lambda seen: schedule(seen).steps[-1].free_after,
    "aborted": lambda seen: [tuple(pair) for step in schedule(seen).steps for pair in step.aborted],
    "aborted late": lambda seen: [tuple(pair) for step in schedule(seen).steps for pair in step.aborted_late],
    "waiting after the first preemption": lambda seen: next(
        step.waiting for step in schedule(seen).steps if step.preempted
    ),
    "chunks": lambda seen: [tokens for step in schedule(seen).steps for _, tokens in step.scheduled],
}

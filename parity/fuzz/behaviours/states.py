"""How much of the space was seen: each step, and each plan, as the number of its shape.

Shapes have no ids, lengths or step numbers, so that their number goes on telling something after a hundred thousand scenarios.
"""

from __future__ import annotations

import zlib

from parity.observation import Observation, PlanError, PlanOk, Schedule, Serve, Step

_MANY = 3  # counts from here on are one class
_QUEUE = 6  # the same for queues, whose lengths matter more


def states(observation: Observation) -> set[int]:
    """The numbers (32 bits, equal in every process and version) of the shapes in an observation. Raises ValueError for level serve."""
    if isinstance(observation, Serve):
        raise ValueError("states of level serve are not counted")
    if isinstance(observation, Schedule):
        if not isinstance(observation.plan, PlanOk):
            return {_number(("refused", observation.plan.kind))}
        usable = observation.plan.usable_blocks
        return {_number(_step(step, usable)) for step in observation.steps} | {
            _number((observation.end.kind,))
        }
    return {_number(_plan(observation))}


def _number(shape: tuple[object, ...]) -> int:
    return zlib.crc32(repr(shape).encode())


def _step(step: Step, usable: int) -> tuple[object, ...]:
    """Queues, events and room. Chunks are told from single tokens, and a table's growth from none."""
    return (
        min(len(step.running), _QUEUE),
        min(len(step.waiting), _QUEUE),
        _few(len(step.new)),
        _few(len(step.resumed)),
        _few(len(step.preempted)),
        _few(sum(tokens > 0 for _, tokens in step.cached)),
        _few(len(step.evicted)),
        _few(sum(tokens > 1 for _, tokens in step.scheduled)),
        _few(len(step.running) - len(step.scheduled)),
        _few(len(step.finished)),
        _few(len(step.aborted)),
        _few(len(step.aborted_late)),
        tuple(step.reset[:2]),
        _room(step.free, usable),
        _room(step.free_after, usable),
    )


def _plan(plan: PlanOk | PlanError) -> tuple[object, ...]:
    if isinstance(plan, PlanError):
        return (plan.kind, plan.warnings, _size(plan.estimated_max_model_len or 0))
    blocks, per_request = plan.concurrency
    return (
        plan.warnings,
        _size(plan.num_blocks),
        _size(plan.max_model_len),
        _size(plan.bytes_per_block),
        min(blocks // per_request, _QUEUE),
        blocks % per_request == 0,
        (plan.kv_cache_size_tokens > plan.max_model_len) - (plan.kv_cache_size_tokens < plan.max_model_len),
        blocks * plan.max_model_len // per_request - plan.kv_cache_size_tokens,
    )


def _few(count: int) -> int:
    return min(count, _MANY)


def _room(free: int, usable: int) -> int:
    """Free blocks: none, one, two, or a class for less than half, less than all, and all of them."""
    if free <= 2:
        return free
    return 5 if free == usable else 4 if 2 * free >= usable else 3


def _size(number: int) -> int:
    return number.bit_length()

"""What one side did in one scenario, in canonical form: integers, ids and states; no times, no ports.

The order of the fields is the order in which things happen within a step, and so the order in which
the diff looks for the first difference.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import msgspec

Ids = list[str]
Count = tuple[str, int]  # (request id, number)


class PlanOk(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="status", tag="ok"):
    """Start-up arithmetic that came out.

    `usable_blocks` is what a freshly built pool says is free; `concurrency` is the label's fraction
    (blocks, blocks of one request at `max_model_len`) and `concurrency_label` the text that is logged.
    """

    warnings: list[str]
    bytes_per_block: int
    num_blocks: int
    usable_blocks: int
    max_model_len: int
    kv_cache_size_tokens: int
    concurrency: tuple[int, int]
    concurrency_label: str


class PlanError(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="status", tag="error"):
    """A refusal to start. `kind` is compared, wording never; docs/protocol.md lists the kinds."""

    warnings: list[str]
    kind: str
    estimated_max_model_len: int | None


Plan = PlanOk | PlanError


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One scheduler step; lists are in the side's own order.

    Before `schedule()`: `aborted` (id, free blocks right after it) and `reset` (its result).
    After `schedule()`: `scheduled` (id, tokens); `new`, `resumed`, `preempted`; `cached` (id, tokens
    found in the prefix cache) of those admitted; `evicted` block ids that lost their hash to a new
    owner, sorted; `blocks` of each running request in running order; `free` blocks; both queues.
    After `update_from_output()`: `aborted_late`, `finished` (id, reason, stop token id), `free_after`.
    """

    aborted: list[Count]
    reset: list[bool]
    scheduled: list[Count]
    new: Ids
    resumed: Ids
    preempted: Ids
    cached: list[Count]
    evicted: list[int]
    blocks: list[tuple[str, list[int]]]
    free: int
    running: Ids
    waiting: Ids
    aborted_late: list[Count]
    finished: list[tuple[str, str, int | None]]
    free_after: int


class End(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a timeline ended; decided by state and never by a clock.

    done      every request finished
    refused   the plan was refused, so nothing ran
    stall     two empty steps in a row with equal full state, nothing pending
    livelock  a full state came back (up to a renaming of blocks) after `period` steps without a token
    limit     `max_steps` were played
    error     the side's own code raised `error` (the exception's class name)

    `outputs` is the number of tokens each request got, in file order.
    """

    kind: Literal["done", "refused", "stall", "livelock", "limit", "error"]
    period: int | None
    error: str | None
    outputs: list[Count]


class Schedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    plan: Plan
    steps: list[Step]
    end: End


Observation = PlanOk | PlanError | Schedule


def decode(level: str, raw: Any) -> Observation:
    """A driver's plain JSON as a typed observation. Raises msgspec.ValidationError."""
    if level == "plan":
        plan: Plan = msgspec.convert(raw, Plan)
        return plan
    return msgspec.convert(raw, Schedule)


def plain(observation: Observation) -> dict[str, Any]:
    """The observation as plain JSON values, fields in declared order."""
    value: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(observation))
    return value


def digest(observation: Observation) -> str:
    """Digest of the whole observation: equal digests mean that nothing observed differs."""
    return "sha256:" + hashlib.sha256(msgspec.json.encode(observation, order="sorted")).hexdigest()

"""The wire's types as the driver reads and writes them; docs/protocol.md says what they mean.

They restate `parity/scenario.py` and `parity/observation.py`, because the oracle's room may not import
the harness. A test holds the JSON Schemas of both against each other.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from oracle.driver.errors import BadRequest

MAX_BLOCKS = 2**21
NonNegative = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
TokenIds = list[NonNegative]
Ids = list[str]
Count = tuple[str, int]  # (request id, number)
Level = Literal["plan", "schedule"]


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    num_layers: Positive
    num_kv_heads: Positive
    head_size: Positive
    max_position: Positive  # tokens
    vocab_size: Positive


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    model: Model
    dtype: Literal["float32", "float16", "bfloat16"]
    block_size: Positive  # tokens
    num_blocks: Annotated[int, Meta(ge=0, le=MAX_BLOCKS)] | None  # the override, the null block included
    kv_cache_memory_bytes: NonNegative
    max_model_len: Positive | Literal["auto"]  # tokens
    max_num_seqs: Positive
    max_num_batched_tokens: Positive  # tokens a step
    enable_chunked_prefill: bool
    long_prefill_token_threshold: NonNegative
    scheduler_reserve_full_isl: bool
    watermark: Annotated[float, Meta(ge=0.0, lt=1.0)]
    enable_prefix_caching: bool
    scheduling_policy: Literal["fcfs", "priority"]


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    at: NonNegative  # step, from 0
    arrival: NonNegative
    prompt: Annotated[TokenIds, Meta(min_length=1)]
    max_tokens: Positive
    min_tokens: NonNegative
    output: TokenIds  # forced, one for each of max_tokens
    eos_token_id: NonNegative | None
    ignore_eos: bool
    stop_token_ids: TokenIds
    priority: int
    cache_salt: str | None
    prompt_logprobs: NonNegative | None


class Abort(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    at: NonNegative
    when: Literal["before_schedule", "before_update"]


class Reset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    at: NonNegative
    running: bool


class Timeline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    requests: Annotated[list[Request], Meta(min_length=1)]
    aborts: list[Abort]
    resets: list[Reset]
    max_steps: Positive


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    level: Level
    config: Config
    timeline: Timeline | None


class PlanOk(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="status", tag="ok"):
    warnings: list[str]
    bytes_per_block: int
    num_blocks: int
    usable_blocks: int
    max_model_len: int
    kv_cache_size_tokens: int
    concurrency: tuple[int, int]
    concurrency_label: str


class PlanError(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="status", tag="error"):
    warnings: list[str]
    kind: str
    estimated_max_model_len: int | None


Plan = PlanOk | PlanError


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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


EndKind = Literal["done", "refused", "stall", "livelock", "limit", "error"]


class End(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: EndKind
    period: int | None
    error: str | None
    outputs: list[Count]


class ScheduleEnd(msgspec.Struct, frozen=True):
    """What ends a schedule on the wire; its steps went before it."""

    plan: Plan
    end: End


class Hello(msgspec.Struct, frozen=True):
    """Who answers: upstream, or the class in the place of its scheduler. Either can all, and shows all (`observes`)."""

    name: str
    version: str  # upstream's
    levels: list[Level]
    model_runner: str  # "v1" or "v2": which of upstream's model runners the scheduler served
    python: str
    torch: str
    source: str  # "wheel" or "checkout"
    capabilities: Literal["all"] = "all"
    observes: dict[Level, list[str]] = {}


def read_scenario(raw: Any) -> Scenario:
    """The scenario of a `run` line. Raises BadRequest where it is none, or contradicts itself."""
    try:
        scenario = msgspec.convert(raw, Scenario)
    except msgspec.ValidationError as error:
        raise BadRequest(f"not a scenario: {error}") from error
    timeline = scenario.timeline
    if (timeline is None) != (scenario.level == "plan"):
        raise BadRequest(f"not a scenario: a timeline belongs to level schedule, not to {scenario.level}")
    if timeline is not None:
        _check_requests(timeline.requests)
    return scenario


def _check_requests(requests: list[Request]) -> None:
    seen: set[str] = set()
    for request in requests:
        if request.id in seen:
            raise BadRequest(f"not a scenario: request id {request.id!r} occurs twice")
        seen.add(request.id)
        if len(request.output) < request.max_tokens:
            raise BadRequest(
                f"not a scenario: request {request.id!r} has {len(request.output)} forced tokens "
                f"for max_tokens {request.max_tokens}"
            )

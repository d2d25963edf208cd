"""What a scenario is on the wire: every default filled in, every length expanded to token ids.

These types are the contract with both drivers and with anyone's engine. The YAML form that people
write (`parity/loader.py`) is expanded into this one, and a scenario's hash is taken over this one.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

MAX_BLOCKS = 2**21  # both sides hold an object a block: more is a hang, not a scenario
NonNegative = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
TokenIds = list[NonNegative]
Level = Literal["plan", "schedule"]


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A decoder-only model's shape, as far as KV capacity depends on it."""

    name: str
    num_layers: Positive
    num_kv_heads: Positive
    head_size: Positive
    max_position: Positive  # tokens
    vocab_size: Positive


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The start-up configuration. Sizes are in blocks, tokens or bytes as the field says.

    `num_blocks` is the override, the null block included; when it is null the pool is sized from
    `kv_cache_memory_bytes`. `max_num_batched_tokens` is the token budget of one step.
    """

    model: Model
    dtype: Literal["float32", "float16", "bfloat16"]
    block_size: Positive  # tokens
    num_blocks: Annotated[int, Meta(ge=0, le=MAX_BLOCKS)] | None
    kv_cache_memory_bytes: NonNegative
    max_model_len: Positive | Literal["auto"]  # tokens
    max_num_seqs: Positive
    max_num_batched_tokens: Positive
    enable_chunked_prefill: bool
    long_prefill_token_threshold: NonNegative
    scheduler_reserve_full_isl: bool
    watermark: Annotated[float, Meta(ge=0.0, lt=1.0)]
    enable_prefix_caching: bool
    scheduling_policy: Literal["fcfs", "priority"]


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One request of a timeline.

    `at` is the step (from 0) before which it is added; `arrival` the stamp that priority ties are
    broken by. `output` holds one forced token id for each of `max_tokens`: the k-th token that the
    side samples is `output[k]`, whatever its own model would say.
    """

    id: str
    at: NonNegative
    arrival: NonNegative
    prompt: Annotated[TokenIds, Meta(min_length=1)]
    max_tokens: Positive
    min_tokens: NonNegative
    output: TokenIds
    eos_token_id: NonNegative | None
    ignore_eos: bool
    stop_token_ids: TokenIds
    priority: int
    cache_salt: str | None
    prompt_logprobs: NonNegative | None


class Abort(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An abort of request `id` in step `at`: before `schedule()`, or between it and the update."""

    id: str
    at: NonNegative
    when: Literal["before_schedule", "before_update"]


class Reset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A reset of the prefix cache before `schedule()` of step `at`; `running` preempts what runs first."""

    at: NonNegative
    running: bool


class Timeline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    requests: Annotated[list[Request], Meta(min_length=1)]
    aborts: list[Abort]
    resets: list[Reset]
    max_steps: Positive


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One scenario as both sides receive it; `timeline` is null at level plan."""

    id: str
    level: Level
    config: Config
    timeline: Timeline | None


class Waiver(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A property that a scenario does not ask for, and why."""

    property: str
    reason: str


class Case(msgspec.Struct, frozen=True):
    """A scenario with what only the harness needs: where it was written and what it is for.

    `outcomes` is the number of plays a side, for a side that is not deterministic; null means that
    one observation is expected.
    """

    scenario: Scenario
    title: str
    why: list[str]
    waive: list[Waiver]
    outcomes: int | None
    path: str  # relative to the project's root
    line: int

    @property
    def id(self) -> str:
        return self.scenario.id

    @property
    def family(self) -> str:
        return self.scenario.id.split("/", 1)[0]

    @property
    def hash(self) -> str:
        return scenario_hash(self.scenario)


def scenario_hash(scenario: Scenario) -> str:
    """Digest of what a side is asked to do (not of the id): equal hashes mean equal questions."""
    body = {"level": scenario.level, "config": scenario.config, "timeline": scenario.timeline}
    return "sha256:" + hashlib.sha256(msgspec.json.encode(body, order="sorted")).hexdigest()

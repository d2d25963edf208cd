"""What a scenario is on the wire: every default filled in, every length expanded to token ids.

These types are the contract with both drivers and with anyone's engine. The YAML form that people
write (`parity/loader.py`) is expanded into this one, and a scenario's hash is taken over this one.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

FIRST_SUITE = "0.1"  # the version of the suite that a scenario came with, unless it says another
MAX_BLOCKS = 2**21  # both sides hold an object a block: more is a hang, not a scenario
NonNegative = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
TokenIds = list[NonNegative]
Level = Literal["plan", "schedule", "serve"]
Json = Any  # a JSON value: null, boolean, number, string, list, or object with string keys


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
    level: Literal["plan", "schedule"]
    config: Config
    timeline: Timeline | None


class ServerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a server is started with. Each side's launcher turns the keys into its own flags.

    `model` is a folder of `.models/`, and the name under which it is served. `generation_config` is the
    content of the operator's generation config, null for the model's own; `override_generation_config`
    is laid over it. `shutdown_timeout` is in seconds.
    """

    model: str
    dtype: Literal["float32", "float16", "bfloat16"]
    block_size: Positive  # tokens
    num_blocks: Annotated[int, Meta(ge=1, le=MAX_BLOCKS)]
    max_model_len: Positive | Literal["auto"]  # tokens
    max_num_seqs: Positive
    max_num_batched_tokens: Positive
    enable_chunked_prefill: bool
    long_prefill_token_threshold: NonNegative
    scheduler_reserve_full_isl: bool
    enable_prefix_caching: bool
    scheduling_policy: Literal["fcfs", "priority"]
    generation_config: dict[str, Json] | None
    override_generation_config: dict[str, Json] | None
    shutdown_timeout: NonNegative


class Exchange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One HTTP request as it goes out: `content` is the body's exact text, null for none.

    `deadline` is the time in seconds after which the client gives up, where the scenario states it; null
    means that an answer is expected, and one that does not come makes the play a failure. `leave_after`
    is the number of frames after which the client hangs up by itself.
    """

    id: str
    method: str
    path: str
    headers: dict[str, str]
    content: str | None
    deadline: Annotated[float, Meta(gt=0.0, le=120.0)] | None
    leave_after: Positive | None


class Send(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="send"):
    """Start an exchange and wait for its end."""

    exchange: Exchange


class Open(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="open"):
    """Start an exchange and go on."""

    exchange: Exchange


class AtOnce(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="at_once"):
    """Start several exchanges together and wait for the end of all."""

    exchanges: Annotated[list[Exchange], Meta(min_length=1)]


class Await(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="await"):
    """Wait for the first frame (or byte) or the end of an exchange that was opened."""

    id: str
    what: Literal["first", "end"]


class Until(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="until"):
    """Wait until `/metrics` shows these numbers of requests (null: any), at most `within` seconds."""

    running: NonNegative | None
    waiting: NonNegative | None
    within: Annotated[float, Meta(gt=0.0, le=60.0)]


class Leave(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="leave"):
    """The client of this exchange hangs up."""

    id: str


class Signal(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="signal"):
    """A signal to the server's process, as an operator's `kill` sends it."""

    name: Literal["TERM", "INT"]


class Pause(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="pause"):
    seconds: Annotated[float, Meta(gt=0.0, le=10.0)]


class Exit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="exit"):
    """Wait for the end of the server's process, at most `within` seconds."""

    within: Annotated[float, Meta(gt=0.0, le=60.0)]


Action = Send | Open | AtOnce | Await | Until | Leave | Signal | Pause | Exit


class ServeScenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A server and what its clients and its operator do to it, in order.

    `fresh` asks for a server that nobody used before; one that got a signal is never used again.
    """

    id: str
    level: Literal["serve"]
    config: ServerConfig
    script: Annotated[list[Action], Meta(min_length=1)]
    fresh: bool

    @property
    def exchanges(self) -> list[Exchange]:
        """Every exchange in the order of the script."""
        found: list[Exchange] = []
        for action in self.script:
            if isinstance(action, (Send, Open)):
                found.append(action.exchange)
            elif isinstance(action, AtOnce):
                found += action.exchanges
        return found

    @property
    def ends_server(self) -> bool:
        return any(isinstance(action, Signal) for action in self.script)


AnyScenario = Scenario | ServeScenario


class Waiver(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A property that a scenario does not ask for, and why."""

    property: str
    reason: str


class Case(msgspec.Struct, frozen=True):
    """A scenario with what only the harness needs: where it was written and what it is for.

    `outcomes` is the number of plays a side, for a side that is not deterministic; null means that
    one observation is expected. `full` scenarios are left out of a check that is not a full one. `needs` are
    the capabilities that the file asks for by name, `since` the version of the suite that it came with.
    """

    scenario: AnyScenario
    title: str
    why: list[str]
    waive: list[Waiver]
    outcomes: int | None
    path: str  # relative to the project's root
    line: int
    full: bool = False
    needs: tuple[str, ...] = ()
    since: str = FIRST_SUITE

    @property
    def id(self) -> str:
        return self.scenario.id

    @property
    def family(self) -> str:
        return self.scenario.id.split("/", 1)[0]

    @property
    def hash(self) -> str:
        return scenario_hash(self.scenario)


def scenario_hash(scenario: AnyScenario) -> str:
    """Digest of what a side is asked to do (not of the id): equal hashes mean equal questions."""
    body = {field: value for field, value in msgspec.structs.asdict(scenario).items() if field != "id"}
    return "sha256:" + hashlib.sha256(msgspec.json.encode(body, order="sorted")).hexdigest()

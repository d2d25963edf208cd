"""What one side did in one scenario, in canonical form: integers, ids and states; no times, no ports.

The order of the fields is the order in which things happen within a step, and so the order in which
the diff looks for the first difference.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import msgspec

from parity import numerics
from parity.scenario import Json

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


class Choice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One choice of a stream, its frames joined: a server may merge tokens into one frame under load.

    `kinds` are the kinds of its frames in order, adjacent `tokens` joined: `role`, `role+tokens` (on one
    frame), `tokens`, `finish`, `other` (a key that is none of the known ones), `empty` (a frame that says nothing
    after the finish; before it, that is a token without a text, and counts as no kind). A finish frame that
    carries text counts as `tokens` and `finish`.

    `joined` is what its frames say together, by the keys of a frame's choice; `frame` holds the keys beside
    the choices. Texts, token ids and logprobs are joined; a `usage` is the last one; of everything else it is
    the value that is not null, or `{"distinct": [...]}` where there are several. `finish` is the finish
    frame (`frame` again holds what stood beside it, without usage) with null where its tokens were.

    `keys` tells which keys the frames have, `delta.` and `frame.` before those within and beside the choice: under
    `role` the distinct lists of the frames with a role; under `tokens` the distinct `{"lacks": …, "has": …}` of frames
    of tokens that have not the keys of the finish (which alone has a `system_fingerprint`, and in a chat a
    `stop_reason`), or without a finish their distinct lists; under `finish` those of finishes that differ. Frames of
    tokens may all have been merged into the finish, so those that have its keys are not told.

    Where the number of tokens is a matter of time (a client that gave up or left, a signal), `kinds` has `cut` in
    the stead of `tokens`, and texts and lists of tokens are cut behind their first character or token: any more
    may or may not have come.
    """

    index: int
    kinds: list[str]
    joined: Json
    finish: Json
    keys: dict[str, Any] = {}


class Stream(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `text/event-stream`: its choices by index, and every frame that belongs to none, in order.

    `rest` holds usage frames, error frames, `"[DONE]"`, comments (`": …"`) and whatever else came, as they are:
    data that is no JSON as `"data: …"`, a JSON text (or null, or an object that looks like one of these entries) as
    `{"json": …}`, `{"fields": [[name, value]…], "data": …}` for a frame with other fields than data,
    `{"partial": text}` for one that the end cut off, `{"oddity": …}` at the end for what is odd in the bytes, in JSON,
    or in that a choice has more frames than it can have tokens.
    `"frames of choices"` stands where choices began or went on after an entry of `rest`, and where they went on also
    at the head if they had begun there.
    `usage` tells on which frames a usage stood: `none`, `last` (alone, after the choices), `every` (on all of the choices,
    and alone), `choices` (on all of them, none alone), `some: with …, without …` by kind and in order; or that
    what they tell cannot be: `decreasing` completion tokens of a choice, or the last ones of the choices
    `unequal` in sum to the usage that stands alone.
    """

    choices: list[Choice]
    rest: list[Json]
    usage: str


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the client of one exchange saw, normalised (`parity/serve/normalise.py` is the one place).

    answered    a whole answer, to its last byte
    silent      no byte by the deadline, while `/metrics` showed nothing running and something waiting
    unanswered  no whole answer by the deadline, otherwise
    broken      the connection ended within the answer, or before it
    refused     nobody took the connection
    left        the client hung up, as the script says: where it stayed for a number of frames (one, where it awaits the
                `first`), `stream` is these frames, cut, without choices that are like another but for their tokens;
                there is no body, and status and headers only where the script waits for a first frame

    `status` is null before a status line. `headers` are those that a client relies on. Of `body`
    (JSON, or text that is none) and `stream` at most one is set; both may be partial unless answered.
    """

    id: str
    ending: Literal["answered", "silent", "unanswered", "broken", "refused", "left"]
    status: int | None
    headers: dict[str, str]
    body: Json
    stream: Stream | None


class After(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `/metrics` shows once every client has ended or left and the server had time to notice."""

    running: int
    waiting: int
    cache_in_use: bool


class Ended(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The process after a signal: its exit code (negative: the signal that killed it), null while it lives.

    `orphans` is 1 if processes of its outlived it by more than five seconds: how many is a matter of load.
    """

    state: Literal["exited", "alive"]
    code: int | None
    orphans: int


class Serve(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A served script. `exchanges` in the script's order; `conditions` tell of each `until` whether it came true.

    `health` are the distinct answers of `/health` while no signal was sent, sorted: statuses, 0 for none.
    `preempted` tells whether the server's preemption counter rose. `after` is null once a signal was sent,
    `ended` where the script waits for no exit.
    """

    exchanges: list[Answer]
    conditions: list[bool]
    health: list[int]
    preempted: bool
    after: After | None
    ended: Ended | None


Observation = PlanOk | PlanError | Schedule | Serve


def decode(level: str, raw: Any) -> Observation:
    """A driver's plain JSON as a typed observation. Raises msgspec.ValidationError."""
    if level == "plan":
        plan: Plan = msgspec.convert(raw, Plan)
        return plan
    if level == "serve":
        return msgspec.convert(raw, Serve)
    return msgspec.convert(raw, Schedule)


def plain(observation: Observation) -> dict[str, Any]:
    """The observation as plain JSON values, fields in declared order."""
    value: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(observation))
    return value


def digest(observation: Observation) -> str:
    """Digest of the whole observation: equal digests mean that nothing observed differs.

    Log probabilities are left out, because they are equal only within a tolerance (`numerics`).
    """
    whole = numerics.without_logprobs(plain(observation)) if isinstance(observation, Serve) else observation
    return "sha256:" + hashlib.sha256(msgspec.json.encode(whole, order="sorted")).hexdigest()

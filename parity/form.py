"""A scenario file as people write it: what every level has, and the keys of the levels plan and schedule.

`parity.loader` turns this form into the explicit wire form of `parity.scenario`; the schema that
editors use is generated from these types. `sweep` is resolved before the rest is read. The form of
level serve is `parity.serve_form`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from parity.defaults import MAX_STEPS, ConfigForm
from parity.scenario import FIRST_SUITE, NonNegative, Positive

Text = Annotated[str, Meta(min_length=1)]
Value = int | float | str | bool | None


class PartForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stretch of a prompt: one of `of`, `output_of` (a request's id) and `new` (a number of ids).

    `take` limits `of` and `output_of` to their first ids.
    """

    of: Text | None = None
    output_of: Text | None = None
    new: Positive | None = None
    take: Positive | None = None


class RequestForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One request. `prompt` is a number of ids to generate, or a list of ids and parts.

    `stamp` null: the index in order of adding. `seed` null: derived from `id`, so that no two requests
    share a prefix. `output` is padded to `max_tokens` with generated ids.
    """

    id: Text
    prompt: Positive | Annotated[list[NonNegative | PartForm], Meta(min_length=1)]
    max_tokens: Positive
    at: NonNegative = 0
    stamp: NonNegative | None = None
    min_tokens: NonNegative = 0
    output: list[NonNegative] = []
    eos_token_id: NonNegative | None = None
    ignore_eos: bool = False
    stop_token_ids: list[NonNegative] = []
    priority: int = 0
    cache_salt: Text | None = None
    prompt_logprobs: NonNegative | None = None
    seed: int | None = None


class AbortForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An abort of request `id` in step `at`."""

    id: Text
    at: NonNegative
    when: Literal["before_schedule", "before_update"] = "before_schedule"


class ResetForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A reset of the prefix cache in step `at`; `running` preempts what runs first."""

    at: NonNegative
    running: bool = False


class WaiverForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    property: Text
    reason: Text


class RangeForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    """The whole numbers from `from` to `to`, both included; each may be an expression over earlier axes."""

    from_: int | Text
    to: int | Text
    step: Positive = 1


class SweepForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file that expands to many scenarios: the product of the axes, less what `where` leaves out.

    `id` is the template of each point's last id part. An axis whose values are maps binds their keys.
    """

    id: Text
    axes: dict[str, Annotated[list[Value | dict[str, Value]], Meta(min_length=1)] | RangeForm]
    where: Text | None = None


class CommonForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a scenario of any level has. A `full` one is played by a full check only.

    `needs` are capabilities (docs/plug-in.md) that do not follow from the scenario itself; `since` is the version
    of the suite that it came with.
    """

    title: Text
    why: list[Text] = []
    waive: list[WaiverForm] = []
    outcomes: Positive | None = None
    full: bool = False
    needs: list[Text] = []
    since: Annotated[str, Meta(pattern=r"^\d+\.\d+$")] = FIRST_SUITE


class ScenarioForm(CommonForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A file of level plan or schedule, its sweep resolved. `requests`, `aborts`, `resets`, `max_steps`: schedule only."""

    level: Literal["plan", "schedule"]
    config: ConfigForm
    requests: Annotated[list[RequestForm], Meta(min_length=1)] | None = None
    aborts: list[AbortForm] = []
    resets: list[ResetForm] = []
    max_steps: Positive = MAX_STEPS


class ScenarioFile(ScenarioForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A file of level plan or schedule as it stands on disk."""

    sweep: SweepForm | None = None

"""A scenario file of level serve as people write it: a server's configuration and a script of actions.

`parity.script` turns this form into the explicit one of `parity.scenario`. A body is any JSON value; maps
in it whose keys begin with `$` are generated values (`parity.bodies`).
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from parity.defaults import ServerConfigForm
from parity.form import CommonForm, SweepForm, Text
from parity.scenario import Json, NonNegative, Positive

Within = Annotated[float, Meta(gt=0.0, le=60.0)]  # seconds


class ExchangeForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One HTTP request. At most one of `body` and `raw` is given; `patch` is a JSON object's text, laid over `body`.

    `method` null: POST where something is sent, else GET. A map as `body` gets the served model as `model`
    where it names none. `raw` goes out as it stands, with no header but those given.
    """

    id: Text
    path: Text
    method: Text | None = None
    headers: dict[str, str] = {}
    body: Json | UnsetType = UNSET
    patch: Text | None = None
    raw: str | None = None
    deadline: Annotated[float, Meta(gt=0.0, le=120.0)] | None = None
    leave_after: Positive | None = None


class AwaitForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Wait for the first frame (or byte) or the end of an exchange that was opened."""

    id: Text
    what: Literal["first", "end"] = "end"


class UntilForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Wait until `/metrics` shows these numbers of requests, at most `within` seconds."""

    running: NonNegative | None = None
    waiting: NonNegative | None = None
    within: Within = 10.0


class ExitForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Wait for the end of the server's process, at most `within` seconds."""

    within: Within = 10.0


class ActionForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"await_": "await"}):
    """One action of a script: exactly one of these keys."""

    send: ExchangeForm | None = None
    open: ExchangeForm | None = None
    at_once: Annotated[list[ExchangeForm], Meta(min_length=1)] | None = None
    await_: AwaitForm | None = None
    until: UntilForm | None = None
    leave: Text | None = None
    signal: Literal["TERM", "INT"] | None = None
    pause: Annotated[float, Meta(gt=0.0, le=10.0)] | None = None
    exit: ExitForm | None = None


class ServeForm(CommonForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A scenario file of level serve, its sweep resolved."""

    level: Literal["serve"]
    config: ServerConfigForm
    script: Annotated[list[ActionForm], Meta(min_length=1)]
    fresh: bool = False


class ServeFile(ServeForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A scenario file of level serve as it stands on disk."""

    sweep: SweepForm | None = None

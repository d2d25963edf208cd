"""Which of upstream's request fields are honoured here, as data, so that none is dropped in silence.

`fields.json` has every field of the pin's two request bodies, by endpoint:
supported (it does what it does upstream), refused (upstream honours it and we do not: 400, unless the value is
one of `harmless`, which ask for nothing), ignored (upstream accepts it and it changes nothing there either).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Literal

import msgspec

from engine.server.errors import Refused

Endpoint = Literal["/v1/completions", "/v1/chat/completions"]


class Field(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One field's verdict; `harmless` are the values of a refused field that are the same as leaving it out.

    `names_param` is false for what upstream itself refuses in the pinned configuration, without naming the field.
    """

    status: Literal["supported", "refused", "ignored"]
    why: str | None = None
    harmless: tuple[Any, ...] = (None,)
    names_param: bool = True


@cache
def table() -> dict[str, dict[str, Field]]:
    """Endpoint to field name to verdict."""
    text = resources.files("engine.server").joinpath("fields.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, dict[str, Field]])


def refuse_unsupported(endpoint: Endpoint, body: Mapping[str, Any]) -> None:
    """Raise Refused for the first field of a body that upstream would honour and this server cannot."""
    fields = table()[endpoint]
    for name, value in body.items():
        field = fields.get(name)
        if field is None or field.status != "refused" or value in field.harmless:
            continue
        raise Refused(
            f"{name} is not supported by this server: {field.why}", name if field.names_param else None
        )

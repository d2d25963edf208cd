"""Upstream's own output objects as plain JSON, field by field, for whoever audits the projection.

No selection is made: every field of every dataclass and struct is there, under upstream's own name. What has no order
(a set) is sorted; an enum member is its name; a thing that is none of these is its `repr`.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

import msgspec

Native = dict[str, Any]


def native(scheduler_output: Any, engine_core_outputs: Any) -> Native:
    """A step's native output as the protocol carries it; `scheduler_output` is null where nothing was scheduled."""
    return {"scheduler_output": scheduler_output, "engine_core_outputs": plain(engine_core_outputs)}


def plain(value: Any) -> Any:
    """`value` as JSON values: null, booleans, numbers, texts, lists, and objects with texts as keys."""
    if isinstance(value, enum.Enum):
        return value.name
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in value), key=str)
    if isinstance(value, msgspec.Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if callable(getattr(value, "tolist", None)):
        return plain(value.tolist())
    return repr(value)

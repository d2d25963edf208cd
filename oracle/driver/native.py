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
        items = [plain(item) for item in value]
        return sorted(items, key=None if all(isinstance(item, int | float) for item in items) else str)
    if isinstance(value, msgspec.Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if callable(getattr(value, "tolist", None)):
        return plain(value.tolist())
    return repr(value)

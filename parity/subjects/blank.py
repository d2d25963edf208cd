"""Values that stand where nothing was seen: the same on both sides, so that no difference can come of them."""

from __future__ import annotations

import types
import typing
from functools import cache
from typing import Any, Literal, get_args, get_origin

import msgspec


@cache
def _blank_of(struct: type[msgspec.Struct]) -> dict[str, Any]:
    hints = typing.get_type_hints(struct)
    return {field: _blank(hints[field]) for field in struct.__struct_fields__}


def blank(struct: type[msgspec.Struct], field: str) -> Any:
    """The value of `field` where it is not seen: zero, nothing, or null where that is allowed."""
    value = _blank_of(struct)[field]
    return list(value) if isinstance(value, list) else dict(value) if isinstance(value, dict) else value


def _blank(hint: Any) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any or origin in (typing.Union, types.UnionType):
        return None
    if origin is Literal:
        return args[0]
    if origin is tuple:
        return tuple(_blank(part) for part in args)
    if origin in (list, dict):
        return origin()
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        raise TypeError(f"{hint.__name__} is no single value")
    return hint()

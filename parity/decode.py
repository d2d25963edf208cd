"""A document's tree as typed values: the one place that checks a file's types, keys and bounds.

The types are msgspec structs, which are also what the JSON Schemas are made from, so that what is
checked and what is published cannot drift apart. Unlike msgspec's own conversion, a fault here names
the place in the file, and a YAML boolean is never taken for a number or a text.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from functools import cache
from typing import Any, TypeVar, cast

from msgspec import inspect

from parity.document import Fault, Keys, Mapping, Node, Scalar, Sequence, nearest

T = TypeVar("T")


def decode(node: Node, type_: type[T], keys: Keys = ()) -> T:
    """`node` as a value of `type_`. Raises Fault at the first thing that does not fit."""
    value: T = _decode(node, _info(cast(Hashable, type_)), keys)
    return value


def plain(node: Node) -> Any:
    """`node` as the JSON value that it looks like: for what is free in form, such as a request's body."""
    if isinstance(node, Mapping):
        return {key: plain(item) for key, item in node.items.items()}
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    return node.value


@cache
def _info(type_: Hashable) -> inspect.Type:
    return inspect.type_info(type_)


def _decode(node: Node, kind: inspect.Type, keys: Keys) -> Any:
    if isinstance(kind, inspect.AnyType):
        return plain(node)
    if isinstance(kind, inspect.UnionType):
        fitting = [option for option in kind.types if _fits(node, option)]
        if not fitting:
            raise _mismatch(node, kind, keys)
        return _decode(node, fitting[0], keys)
    if not _fits(node, kind):
        raise _mismatch(node, kind, keys)
    if isinstance(node, Scalar):
        return _scalar(node, kind, keys)
    if isinstance(node, Sequence):
        assert isinstance(kind, inspect.ListType)
        if kind.min_length is not None and len(node.items) < kind.min_length:
            raise Fault("must not be empty", keys)
        return [_decode(item, kind.item_type, (*keys, index)) for index, item in enumerate(node.items)]
    if isinstance(kind, inspect.DictType):
        return {key: _decode(item, kind.value_type, (*keys, key)) for key, item in node.items.items()}
    assert isinstance(kind, inspect.StructType)
    return _struct(node, kind, keys)


def _struct(node: Mapping, kind: inspect.StructType, keys: Keys) -> Any:
    fields = {field.encode_name: field for field in kind.fields}
    for key in node.items:
        if key not in fields:
            raise Fault(f"unknown key {key!r}", (*keys, key), hint=nearest(key, fields))
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name in node.items:
            values[field.name] = _decode(node.items[name], field.type, (*keys, name))
        elif field.required:
            raise Fault(f"key {name!r} is missing", keys)
    return kind.cls(**values)


def _fits(node: Node, kind: inspect.Type) -> bool:
    if isinstance(node, Sequence):
        return isinstance(kind, inspect.ListType)
    if isinstance(node, Mapping):
        return isinstance(kind, inspect.DictType | inspect.StructType)
    value = node.value
    if value is None:
        return isinstance(kind, inspect.NoneType)
    if isinstance(value, bool):
        return isinstance(kind, inspect.BoolType)
    if isinstance(value, int):
        return isinstance(kind, inspect.IntType | inspect.FloatType)
    if isinstance(value, float):
        return isinstance(kind, inspect.FloatType)
    return isinstance(kind, inspect.StrType | inspect.LiteralType)


def _scalar(node: Scalar, kind: inspect.Type, keys: Keys) -> Any:
    value = node.value
    if isinstance(kind, inspect.LiteralType):
        if value not in kind.values:
            words = [str(word) for word in kind.values]
            raise Fault(f"{value!r} is not a choice here", keys, hint=nearest(str(value), words))
    elif isinstance(kind, inspect.IntType | inspect.FloatType):
        assert isinstance(value, int | float)
        if not _within(value, kind):
            raise Fault(f"expected {_describe(kind)}, got {node.text}", keys)
        return float(value) if isinstance(kind, inspect.FloatType) else value
    elif isinstance(kind, inspect.StrType):
        if kind.min_length and not str(value).strip():
            raise Fault("must not be empty", keys)
        if kind.pattern and not re.search(kind.pattern, str(value)):
            raise Fault(f"{value!r} does not fit the pattern {kind.pattern}", keys)
    return value


def _bounds(kind: inspect.IntType | inspect.FloatType) -> tuple[tuple[str, float | None], ...]:
    """Every bound that a number's type can have, in words."""
    return (("at least", kind.ge), ("more than", kind.gt), ("at most", kind.le), ("below", kind.lt))


def _within(value: float, kind: inspect.IntType | inspect.FloatType) -> bool:
    return (
        (kind.ge is None or value >= kind.ge)
        and (kind.gt is None or value > kind.gt)
        and (kind.le is None or value <= kind.le)
        and (kind.lt is None or value < kind.lt)
    )


def _mismatch(node: Node, kind: inspect.Type, keys: Keys) -> Fault:
    got, hint = _got(node)
    return Fault(f"expected {_describe(kind)}, got {got}", keys, hint=hint)


def _got(node: Node) -> tuple[str, str | None]:
    if isinstance(node, Sequence):
        return "a list", None
    if isinstance(node, Mapping):
        return "a map", None
    if node.value is None:
        return "null", None
    if isinstance(node.value, bool):
        return f"a boolean ({node.text})", f"YAML reads a bare {node.text} as true or false; quote a text"
    if isinstance(node.value, str):
        return f"the text {node.text[:40]!r}", None
    return f"the number {node.text}", "quote it if it is meant as text"


def _describe(kind: inspect.Type) -> str:
    match kind:
        case inspect.UnionType():
            return " or ".join(dict.fromkeys(_describe(option) for option in kind.types))
        case inspect.IntType() | inspect.FloatType():
            noun = "a whole number" if isinstance(kind, inspect.IntType) else "a number"
            bounds = [f"{word} {bound:.12g}" for word, bound in _bounds(kind) if bound is not None]
            return noun + (f" of {' and '.join(bounds)}" if bounds else "")
        case inspect.LiteralType():
            return " or ".join(repr(word) for word in kind.values)
        case inspect.BoolType():
            return "true or false"
        case inspect.StrType():
            return "a text"
        case inspect.NoneType():
            return "null"
        case inspect.ListType():
            return "a list"
    return "a map"

"""Whole-number arithmetic over the names of a sweep, and nothing else: no calls, no attributes, no powers."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import pairwise
from operator import add, eq, floordiv, ge, gt, le, lt, mod, mul, ne, sub
from typing import Any

from parity.document import MAX_INTEGER, Fault, nearest

Value = int | float | str | bool | None
MAX_LENGTH = 200

_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: add,
    ast.Sub: sub,
    ast.Mult: mul,
    ast.FloorDiv: floordiv,
    ast.Mod: mod,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: eq,
    ast.NotEq: ne,
    ast.Lt: lt,
    ast.LtE: le,
    ast.Gt: gt,
    ast.GtE: ge,
}
ALLOWED = "use whole numbers, names of axes, + - * // % and parentheses"


def evaluate(text: str, names: Mapping[str, Value]) -> Value:
    """The value of an expression: a name of any type alone, or arithmetic over whole numbers. Raises Fault."""
    return _value(_parse(text), names, text)


def holds(text: str, names: Mapping[str, Value]) -> bool:
    """Whether a condition holds: comparisons, joined with `and`, `or`, `not`. Raises Fault."""
    return _condition(_parse(text), names, text)


@lru_cache(maxsize=1024)
def _parse(text: str) -> ast.expr:
    if len(text) > MAX_LENGTH:
        raise Fault(f"an expression of {len(text)} characters; at most {MAX_LENGTH} are read")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise Fault(f"{text!r} is no expression", hint=ALLOWED) from None


def _value(node: ast.expr, names: Mapping[str, Value], text: str) -> Value:
    match node:
        case ast.Name(id=name):
            if name not in names:
                raise Fault(f"{text!r}: no axis {name!r} before this place", hint=nearest(name, names))
            return names[name]
        case ast.Constant(value=int() | str() as constant) if not isinstance(constant, bool):
            return constant
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_integer(operand, names, text)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _integer(operand, names, text)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _arithmetic(type(op), _integer(left, names, text), _integer(right, names, text), text)
    raise Fault(f"{text!r} uses what an expression may not", hint=ALLOWED)


def _arithmetic(op: type[ast.operator], left: int, right: int, text: str) -> int:
    if right == 0 and op in (ast.FloorDiv, ast.Mod):
        raise Fault(f"{text!r} divides by zero")
    result = _ARITHMETIC[op](left, right)
    if abs(result) > MAX_INTEGER:
        raise Fault(f"{text!r} leaves the range of 64 bits")
    return result


def _integer(node: ast.expr, names: Mapping[str, Value], text: str) -> int:
    value = _value(node, names, text)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Fault(f"{text!r} calculates with {value!r}, which is no whole number")
    return value


def _condition(node: ast.expr, names: Mapping[str, Value], text: str) -> bool:
    match node:
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_condition(part, names, text) for part in parts)
        case ast.BoolOp(op=ast.Or(), values=parts):
            return any(_condition(part, names, text) for part in parts)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _condition(operand, names, text)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            values = [_value(part, names, text) for part in (left, *comparators)]
            return all(_compare(op, *pair, text) for op, pair in zip(ops, _pairs(values), strict=True))
    raise Fault(f"{text!r} is no condition", hint="compare with == != < <= > >=, join with and, or, not")


def _pairs(values: list[Value]) -> list[tuple[Value, Value]]:
    return list(pairwise(values))


def _compare(op: ast.cmpop, left: Value, right: Value, text: str) -> bool:
    compare = _COMPARISONS.get(type(op))
    if compare is None:
        raise Fault(f"{text!r} is no condition", hint="compare with == != < <= > >=")
    try:
        return bool(compare(left, right))
    except TypeError:
        raise Fault(f"{text!r} compares {left!r} with {right!r}") from None

"""One file that expands to many scenarios: axes, and templates `${…}` in any value of the file.

Expansion works on the document's tree before its types are checked, so every key of a scenario can
be swept, and a fault in an expanded scenario still names the line of its template.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from parity.decode import decode
from parity.document import Fault, Keys, Mapping, Node, Scalar, Sequence
from parity.expression import Value, evaluate, holds
from parity.form import RangeForm, SweepForm

MAX_POINTS = 5000

Point = dict[str, Value]
T = TypeVar("T")

_TEMPLATE = re.compile(r"\$\{([^{}]*)\}")
_SUFFIX = re.compile(r"[a-z0-9]+([-.][a-z0-9]+)*\Z")
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")


class Expanded(NamedTuple):
    """One scenario of a file: the suffix of its id (null without a sweep), its tree, the point's values."""

    suffix: str | None
    tree: Mapping
    point: Point


def expand(tree: Mapping) -> list[Expanded]:
    """The scenarios of a file in the order of its axes, the last axis fastest. Raises Fault."""
    if "sweep" not in tree.items:
        _no_templates(tree)
        return [Expanded(None, tree, {})]
    sweep = decode(tree.items["sweep"], SweepForm, ("sweep",))
    body = Mapping({key: node for key, node in tree.items.items() if key != "sweep"}, tree.lines, tree.line)
    expanded: dict[str, Expanded] = {}
    for point in _points(sweep):
        suffix = _text(_filled(sweep.id, point, ("sweep", "id")))
        if not _SUFFIX.match(suffix):
            raise Fault(f"{suffix!r} cannot end an id", ("sweep", "id"), hint="use a-z, 0-9, '.' and '-'")
        if suffix in expanded:
            raise Fault(
                f"two points have the id {suffix!r}: {expanded[suffix].point} and {point}",
                ("sweep", "id"),
                hint="name every axis that tells them apart in the id",
            )
        filled = _fill(body, point, ())
        assert isinstance(filled, Mapping)
        expanded[suffix] = Expanded(suffix, filled, point)
    if not expanded:
        raise Fault("the sweep has no point", ("sweep",), hint="look at its axes and at where")
    return list(expanded.values())


def _points(sweep: SweepForm) -> Iterator[Point]:
    for name in sweep.axes:
        if not _NAME.match(name):
            raise Fault(f"{name!r} is no axis name", ("sweep", "axes", name), hint="use a-z, 0-9 and _")
    if not sweep.axes:
        raise Fault("a sweep needs an axis", ("sweep", "axes"))
    for seen, point in enumerate(_product(list(sweep.axes), sweep, {})):
        if seen >= MAX_POINTS:
            raise Fault(f"more than {MAX_POINTS} points", ("sweep", "axes"))
        if sweep.where is None or _at(("sweep", "where"), sweep.where, point, holds):
            yield point


def _product(names: list[str], sweep: SweepForm, point: Point) -> Iterator[Point]:
    if not names:
        yield point
        return
    for bound in _axis(names[0], sweep, point):
        clash = bound.keys() & point.keys()
        if clash:
            raise Fault(f"{min(clash)!r} is bound twice", ("sweep", "axes", names[0]))
        yield from _product(names[1:], sweep, {**point, **bound})


def _axis(name: str, sweep: SweepForm, point: Point) -> Iterator[Point]:
    axis, keys = sweep.axes[name], ("sweep", "axes", name)
    if isinstance(axis, RangeForm):
        first = _bound(axis.from_, point, (*keys, "from"))
        last = _bound(axis.to, point, (*keys, "to"))
        if last - first > MAX_POINTS * axis.step:
            raise Fault(f"more than {MAX_POINTS} values", keys)
        for number in range(first, last + 1, axis.step):
            yield {name: number}
        return
    for index, value in enumerate(axis):
        if not isinstance(value, dict):
            yield {name: _filled(value, point, (*keys, index))}
            continue
        for key in value:
            if not _NAME.match(key):
                raise Fault(f"{key!r} is no axis name", (*keys, index, key), hint="use a-z, 0-9 and _")
        yield {key: _filled(item, point, (*keys, index, key)) for key, item in value.items()}


def _bound(value: int | str, point: Point, keys: Keys) -> int:
    number = _at(keys, value, point, evaluate) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int):
        raise Fault(f"expected a whole number, got {number!r}", keys)
    return number


def _fill(node: Node, point: Point, keys: Keys) -> Node:
    if isinstance(node, Mapping):
        items = {key: _fill(item, point, (*keys, key)) for key, item in node.items.items()}
        return Mapping(items, node.lines, node.line)
    if isinstance(node, Sequence):
        return Sequence(
            tuple(_fill(item, point, (*keys, at)) for at, item in enumerate(node.items)), node.line
        )
    value = _filled(node.value, point, keys)
    return node if value is node.value else Scalar(value, _text(value), node.line)


def _filled(value: Value, point: Point, keys: Keys) -> Value:
    """A value with its templates replaced; a value that is one template keeps the expression's type."""
    if not isinstance(value, str) or "${" not in value:
        return value
    whole = _TEMPLATE.fullmatch(value)
    if whole:
        return _at(keys, whole[1], point, evaluate)
    text = _TEMPLATE.sub(lambda match: _text(_at(keys, match[1], point, evaluate)), value)
    if "${" in text:
        raise Fault(f"{value!r} has a template that does not end", keys, hint="write ${expression}")
    return text


def _text(value: Value) -> str:
    """A value inside a longer text, as YAML writes it."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _at(keys: Keys, text: str, point: Point, calculate: Callable[[str, Point], T]) -> T:
    """Calculate, and name the place in the file if that is not possible."""
    try:
        return calculate(text, point)
    except Fault as fault:
        raise Fault(fault.message, keys, hint=fault.hint) from None


def _no_templates(node: Node, keys: Keys = ()) -> None:
    if isinstance(node, Mapping):
        for key, item in node.items.items():
            _no_templates(item, (*keys, key))
    elif isinstance(node, Sequence):
        for at, item in enumerate(node.items):
            _no_templates(item, (*keys, at))
    elif isinstance(node.value, str) and "${" in node.value:
        raise Fault("is a template, but the file has no sweep", keys, hint="add sweep: with its axes")

"""Both observations of one scenario, line against line, with the first difference marked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from parity.report.serve_lines import Lines, served_lines
from parity.scenario import Json

NATIVE_DEPTH = 3  # object, its key or field, and a field of what is there


def lines_of(observation: dict[str, Any]) -> Lines:
    """An observation as lines: one a plan field, one a non-empty field of a step, one a field of the end.

    Of a served script one a part of an exchange, as `serve_lines` says.
    """
    if "exchanges" in observation:
        return served_lines(observation)
    lines: Lines = {}
    for section, (name, value) in enumerate(observation.items()):
        if name == "steps":
            for index, step in enumerate(value):
                for field, (key, content) in enumerate(step.items()):
                    if content != []:
                        lines[f"steps[{index}].{key}"] = ((section, index, field), _show(content))
        elif isinstance(value, dict):
            for field, (key, content) in enumerate(value.items()):
                lines[f"{name}.{key}"] = ((section, 0, field), _show(content))
        else:
            lines[name] = ((section, 0, 0), _show(value))
    return lines


def table(oracle: dict[str, Any], subject: dict[str, Any], first_difference: str | None) -> Table:
    """Both sides in one table, rows in the order of happening; the first difference is marked `◀`."""
    left, right = lines_of(oracle), lines_of(subject)
    places = {path: place for path, (place, _) in (right | left).items()}
    result = Table(box=None, pad_edge=False)
    result.add_column("at", style="dim", no_wrap=True)
    result.add_column("oracle", overflow="fold")
    result.add_column("subject", overflow="fold")
    absent = ((0, 0, 0), "–")
    for path in sorted(places, key=places.__getitem__):
        theirs, ours = left.get(path, absent)[1], right.get(path, absent)[1]
        marked = first_difference is not None and _covers(path, first_difference)
        style = "bold red" if marked else ("yellow" if ours != theirs else "")
        cells = (path + (" ◀" if marked else ""), theirs, ours)
        result.add_row(*(Text(cell, style=style) for cell in cells))
    return result


def native_lines(native: Sequence[Json]) -> list[str]:
    """What the oracle itself put out in each step, a line a field, in its own names; what is empty is left out."""
    return [
        f"steps[{index}].{path}: {json.dumps(value)}"
        for index, step in enumerate(native)
        for path, value in _fields(_without_empty(step), NATIVE_DEPTH)
    ]


def _fields(value: Json, depth: int) -> Iterator[tuple[str, Json]]:
    """The parts of an object, `depth` names deep: (dotted names, value)."""
    if isinstance(value, dict) and depth:
        for name, item in value.items():
            for path, part in _fields(item, depth - 1):
                yield f"{name}.{path}" if path else name, part
    else:
        yield "", value


def _without_empty(value: Json) -> Json:
    """`value` without the fields of objects that are null, or an empty list or object."""
    if isinstance(value, dict):
        kept = {name: _without_empty(item) for name, item in value.items()}
        return {name: item for name, item in kept.items() if item is not None and item not in ([], {})}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


def _covers(path: str, difference: str) -> bool:
    return difference == path or difference.startswith((f"{path}[", f"{path}."))


def _show(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(_show_item(item) for item in value) or "none"
    return "none" if value is None else str(value)


def _show_item(item: Any) -> str:
    if isinstance(item, list | tuple) and item and isinstance(item[0], str):
        return f"{item[0]}:{','.join(_show(part) for part in item[1:])}"
    return _show(item)

"""A served script's observation as short lines: one a part of an exchange, one a field of what is told of the whole.

Answers may be megabytes long, and a table is for looking at: long values are cut, and say how long they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from parity.diff import Key, render

Place = tuple[int, int, int]  # where a line stands: (section, entry, field), the order of happening
Lines = dict[str, tuple[Place, str]]  # path → its place and its rendered value

MAX_CHARACTERS = 240
_OPENED = (
    "body",
    "stream",
    "choices",
    "joined",
    "logprobs",
    "message",
    "delta",
)  # parts that are told key by key
_PARTS_APART = 10_000  # lines of one part that stand before those of the next, on whichever side they are
_NOTHING: tuple[Any, ...] = (None, {}, [])


def served_lines(observation: dict[str, Any]) -> Lines:
    """The lines of a served script. What is null or empty has none."""
    lines: Lines = {}
    for section, (name, value) in enumerate(observation.items()):
        if name != "exchanges":
            lines |= {
                place: ((section, 0, at), text) for at, (place, text) in enumerate(_lines((name,), value))
            }
            continue
        for entry, exchange in enumerate(value):
            for part, (key, item) in enumerate(exchange.items()):
                for at, (place, text) in enumerate(_lines((name, entry, key), item)):
                    lines[place] = ((section, entry, part * _PARTS_APART + at), text)
    return lines


def _lines(path: tuple[Key, ...], value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and _is_opened(path):
        for key, item in value.items():
            yield from _lines((*path, key), item)
    elif isinstance(value, list) and path[-1] == "choices" and value:
        for index, item in enumerate(value):
            yield from _lines((*path, index), item)
    elif value not in _NOTHING:
        yield render(path), _shown(value)


def _is_opened(path: tuple[Key, ...]) -> bool:
    """An entry of a list of choices, one of the parts that have parts, and `after` and `ended`."""
    return isinstance(path[-1], int) or path[-1] in _OPENED or path in (("after",), ("ended",))


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[:MAX_CHARACTERS]}… ({len(text)} characters)"

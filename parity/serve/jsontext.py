"""JSON as a server wrote it: its value, and what two texts of one value may differ in although no client should see it.

What comes from a server under test may be anything; nothing here depends on how deep or how odd it is.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from parity.scenario import Json

MAX_DEPTH = 100  # levels; no client reads deeper, and what walks a value here is recursive


class NoJson(ValueError):
    """The text is no JSON, or has numbers or a depth that nobody reads."""


def read(content: bytes) -> tuple[Json, list[str]]:
    """The value, and its oddities: keys that stand twice in one object, and `-0`. Raises NoJson."""
    try:
        value = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NoJson(str(error)) from error
    if _is_deeper(value, MAX_DEPTH):
        raise NoJson(f"more than {MAX_DEPTH} levels")
    return value, _oddities(content)


def _is_deeper(value: Json, limit: int) -> bool:
    level = _nested([value])
    for _ in range(limit):
        level = [inner for node in level for inner in _nested(node)]
    return bool(level)


def _nested(node: Json) -> list[Json]:
    """The objects and lists in an object or a list."""
    items = node.values() if isinstance(node, dict) else node
    return [item for item in items if isinstance(item, (dict, list))]


def _oddities(content: bytes) -> list[str]:
    found: set[str] = set()

    def pairs(members: list[tuple[str, Any]]) -> None:
        keys = [key for key, _ in members]
        if len(set(keys)) < len(keys):
            found.update(f"key twice: {key}" for key in keys if keys.count(key) > 1)

    def integer(text: str) -> None:
        if text == "-0":
            found.add("the integer -0")

    json.loads(content, object_pairs_hook=pairs, parse_int=integer, parse_float=str)
    return sorted(found)

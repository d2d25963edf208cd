"""A document as the YAML that a person would have written: the suite's style, and read back as the same values."""

from __future__ import annotations

from typing import Any

import yaml

from parity.fuzz.document import Document
from parity.scenario import Json

WIDTH = 110
_ENTRIES = ("requests", "aborts", "resets", "waive")
_FIRST = ("id", "at", "stamp", "prompt", "max_tokens")


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Items of a list stand deeper than its key."""
        del indentless
        super().increase_indent(flow, False)


class _FlowMap(dict[str, Json]):
    """A map in braces, on one line."""


class _FlowList(list[Json]):
    """A list in brackets, on one line."""


_Dumper.add_representer(
    _FlowMap,
    lambda dumper, data: dumper.represent_mapping("tag:yaml.org,2002:map", data.items(), flow_style=True),
)
_Dumper.add_representer(
    _FlowList,
    lambda dumper, data: dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=True),
)


def dump(value: dict[str, Json]) -> str:
    """A map as YAML, a key a line, in the given order."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=2**20, allow_unicode=True
    )
    return text


def laid(document: Document) -> dict[str, Json]:
    """The document for `dump`: an entry a line, in braces."""
    return {key: _laid(key, value) for key, value in document.items()}


def flow(value: Json) -> Json:
    """The value for `dump` on one line."""
    if isinstance(value, dict):
        return _FlowMap(value)
    return _FlowList(value) if isinstance(value, list) else value


def _laid(key: str, value: Json) -> Json:
    if key in _ENTRIES and isinstance(value, list):
        return [flow(_ordered(entry)) for entry in value]
    if key == "script" and isinstance(value, list):
        return [_action(action) for action in value]
    one_line = flow(value)
    is_long = isinstance(value, dict) and len(dump({key: one_line})) > WIDTH
    return value if is_long else one_line


def _action(action: Json) -> Json:
    if not isinstance(action, dict):
        return action
    return {
        key: [flow(exchange) for exchange in value] if key == "at_once" else flow(value)
        for key, value in action.items()
    }


def _ordered(entry: Json) -> Json:
    """A request with the keys that every one has first."""
    if not isinstance(entry, dict):
        return entry
    return {key: entry[key] for key in _FIRST if key in entry} | entry

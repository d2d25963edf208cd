"""The YAML of records, read with the line and the span of every value, and written in one fixed style.

Two things differ from plain YAML 1.1: `on`, `off`, `yes` and `no` are words (records have a key `on`), and
anchors, aliases and repeated keys are refused, because what a reader sees must be what is meant.
"""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from parity.flowstyle import FlowList, FlowMap, add_flow_style
from parity.scenario import Json

Keys = tuple[str | int, ...]
_BOOL = "tag:yaml.org,2002:bool"


class Fault(Exception):
    """A fault in YAML text, at a line that counts from 1 within that text."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class Document(msgspec.Struct, frozen=True):
    """A YAML text's values, with the line (from 1) and the span (start and end offset) of each."""

    value: Json
    lines: dict[Keys, int]
    spans: dict[Keys, tuple[int, int]]


if TYPE_CHECKING:
    from yaml import SafeLoader as _Parser
else:
    _Parser = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the compiled one is some ten times faster


class _Loader(_Parser):
    pass


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


add_flow_style(_Dumper)


def _words(resolvers: dict[str, list[tuple[str, Any]]]) -> dict[str, list[tuple[str, Any]]]:
    kept = {first: [item for item in items if item[0] != _BOOL] for first, items in resolvers.items()}
    for first in "tTfF":
        kept.setdefault(first, []).insert(0, (_BOOL, re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")))
    return kept


_Loader.yaml_implicit_resolvers = _words(_Loader.yaml_implicit_resolvers)
_Dumper.yaml_implicit_resolvers = _words(_Dumper.yaml_implicit_resolvers)


def read(text: str) -> Document:
    """The one document in `text`. Raises Fault."""
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        lines: dict[Keys, int] = {}
        spans: dict[Keys, tuple[int, int]] = {}
        value = None if node is None else _build(loader, node, (), lines, spans, set())
        return Document(value, lines, spans)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Fault(error.problem or "is not YAML", 1 if mark is None else mark.line + 1) from None
    except RecursionError:
        raise Fault("is nested too deeply", 1) from None
    except (yaml.YAMLError, ValueError) as error:
        raise Fault(f"is not YAML: {str(error).splitlines()[0]}", 1) from None
    finally:
        loader.dispose()


def write(value: dict[str, Json]) -> str:
    """The value as YAML, keys in the given order: a key a line, an entry a line, each entry in braces."""
    laid = {key: _laid(item) for key, item in value.items()}
    return yaml.dump(
        laid, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=2**20, allow_unicode=True
    )


def _laid(item: Json) -> Json:
    if isinstance(item, dict):
        return FlowMap(item)
    if isinstance(item, list):
        return (
            [FlowMap(entry) for entry in item] if any(isinstance(e, dict) for e in item) else FlowList(item)
        )
    return item


def _build(
    loader: yaml.SafeLoader,
    node: yaml.Node,
    keys: Keys,
    lines: dict[Keys, int],
    spans: dict[Keys, tuple[int, int]],
    seen: set[int],
) -> Json:
    lines.setdefault(keys, node.start_mark.line + 1)
    spans[keys] = (node.start_mark.index, node.end_mark.index)
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_object(node)
        if value is None or isinstance(value, (str, int, float, bool, datetime.date)):
            return value
        raise Fault(f"{node.value!r} is no text, number, date, true, false or null", node.start_mark.line + 1)
    if id(node) in seen:
        raise Fault("anchors and aliases are not used here: write the value out", node.start_mark.line + 1)
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        return [
            _build(loader, item, (*keys, index), lines, spans, seen) for index, item in enumerate(node.value)
        ]
    built: dict[str, Json] = {}
    for key, item in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise Fault("a key is text", line)
        if key.value in built:
            raise Fault(f"key {key.value!r} stands twice", line)
        lines[(*keys, key.value)] = line
        built[key.value] = _build(loader, item, (*keys, key.value), lines, spans, seen)
    return built

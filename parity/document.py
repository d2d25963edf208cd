"""YAML text as a small tree that remembers its lines, so that every later fault can name one.

Only what a scenario needs is let through: text, whole numbers, decimals, true/false, null, lists and
maps with text keys. Anchors, tags, dates and YAML 1.1's octal and base-60 numbers are faults, because
what a reader sees and what YAML makes of it would differ.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

import msgspec
import yaml

Key = str | int
Keys = tuple[Key, ...]

MAX_DEPTH = 12
MAX_NAMED = 20  # names in a hint
MAX_INTEGER = 2**63 - 1

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9_]*)\Z")


class Fault(Exception):
    """Something wrong at a place of a document: a path of keys into it, or a line where no path exists yet.

    Raised by code that knows values only; `parity.loader` turns it into a ScenarioError with file and line.
    """

    def __init__(
        self, message: str, keys: Keys = (), *, line: int | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.keys = keys
        self.line = line
        self.hint = hint


class Scalar(msgspec.Struct, frozen=True):
    """A single value; `line` counts from 1 and `text` is what stands in the file."""

    value: str | int | float | bool | None
    text: str
    line: int


class Sequence(msgspec.Struct, frozen=True):
    items: tuple[Node, ...]
    line: int


class Mapping(msgspec.Struct, frozen=True):
    """A map with text keys; `lines` holds the line of each key."""

    items: dict[str, Node]
    lines: dict[str, int]
    line: int


Node = Scalar | Sequence | Mapping


def parse(data: bytes) -> Mapping:
    """The one document in `data`, a map. Raises Fault with a line."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Fault("is not UTF-8 text", line=line, hint="save the file as UTF-8") from None
    root = _compose(text)
    if root is None:
        raise Fault("is empty", line=1, hint="a scenario needs at least title, level and config")
    tree = _convert(root, set(), 0)
    if not isinstance(tree, Mapping):
        raise Fault("a file holds one map of keys at its top", line=tree.line)
    return tree


def line_at(tree: Node, keys: Keys) -> int:
    """The line of the deepest part of `keys` that exists in `tree`."""
    line = tree.line
    for key in keys:
        if isinstance(tree, Mapping) and isinstance(key, str) and key in tree.items:
            line, tree = tree.lines[key], tree.items[key]
        elif isinstance(tree, Sequence) and isinstance(key, int) and key < len(tree.items):
            tree = tree.items[key]
            line = tree.line
        else:
            break
    return line


def dotted(keys: Keys) -> str:
    """A path as people read it: `requests[0].prompt`."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return text.removeprefix(".")


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint that names the nearest of `known`, or all of them where none is near, as far as a line has room."""
    names = list(known)
    close = difflib.get_close_matches(word[:80], names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"one of: {', '.join(names[:MAX_NAMED])}{more}"


def _compose(text: str) -> yaml.Node | None:
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "malformed"
        line = mark.line if mark else 0
        hint = _tab_hint(text, line)
        raise Fault(f"is not valid YAML: {problem}", line=line + 1, hint=hint) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise Fault(f"is not valid YAML: {error.reason}", line=line) from None
    except (yaml.YAMLError, ValueError) as error:
        raise Fault(f"is not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise Fault("is nested too deeply") from None
    return node


def _tab_hint(text: str, line: int) -> str | None:
    """What to say where a line (counted from 0) is indented with a tab."""
    lines = text.splitlines()
    start = lines[line] if line < len(lines) else ""
    indent = start[: len(start) - len(start.lstrip())]
    return "YAML indents with spaces, never with tabs" if "\t" in indent else None


def _convert(node: yaml.Node, seen: set[int], depth: int) -> Node:
    line = node.start_mark.line + 1
    if id(node) in seen:
        raise Fault("anchors and aliases are not used here", line=line, hint="write the value out")
    seen.add(id(node))
    if depth > MAX_DEPTH:
        raise Fault("is nested too deeply", line=line)
    if isinstance(node, yaml.ScalarNode):
        return Scalar(_value(node, line), node.value, line)
    kind = "map" if isinstance(node, yaml.MappingNode) else "seq"
    if node.tag != _TAG + kind:
        raise Fault(f"the tag {node.tag!r} is not used here", line=line)
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, line, seen, depth)
    return Sequence(tuple(_convert(item, seen, depth + 1) for item in node.value), line)


def _mapping(node: yaml.MappingNode, line: int, seen: set[int], depth: int) -> Mapping:
    items: dict[str, Node] = {}
    lines: dict[str, int] = {}
    for key_node, value_node in node.value:
        at = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise Fault("a key must be text, not a list or map", line=at)
        if key_node.tag != _TAG + "str":
            kind = key_node.tag.removeprefix(_TAG)
            raise Fault(f"a key must be text, and YAML reads {key_node.value[:40]!r} as {kind}", line=at)
        key = key_node.value
        if key in items:
            raise Fault(f"key {key!r} stands twice, first in line {lines[key]}", line=at)
        lines[key] = at
        items[key] = _convert(value_node, seen, depth + 1)
    return Mapping(items, lines, line)


def _value(node: yaml.ScalarNode, line: int) -> str | int | float | bool | None:
    text: str = node.value
    match node.tag.removeprefix(_TAG):
        case "str":
            return text
        case "null":
            return None
        case "bool":
            return text.lower() in ("true", "yes", "on")
        case "int" if _DECIMAL.match(text) and len(text) < 30 and abs(int(text)) <= MAX_INTEGER:
            return int(text)
        case "int":
            raise Fault(f"{text[:40]} is no plain decimal number of at most 63 bits", line=line)
        case "float" if text.lstrip("+-").lower() in (".inf", ".nan") or ":" in text:
            raise Fault(f"{text[:40]} is no plain decimal number", line=line)
        case "float" if len(text) < 60:
            return float(text.replace("_", ""))
        case "timestamp":
            raise Fault(f"{text} is read as a date", line=line, hint=f'write "{text}" in quotes')
    raise Fault(f"the value {text[:40]!r} is not used here", line=line, hint=f"YAML read it as {node.tag}")

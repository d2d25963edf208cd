"""Finds a symbol's source in a module's text and digests it, so that an anchor survives everything but a change of it.

Records cite `path.py::Qualified.symbol` and hold the digest. Lines may move, comments and blank lines may come and go;
a changed token, default, docstring or string does not pass. The text is never rendered anew from a syntax tree: that
rendering differs between Python versions, and a digest must not.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import io
import tokenize
from collections.abc import Iterator, Sequence

from oracle.errors import OracleFault

_FSTRING_START = getattr(tokenize, "FSTRING_START", -1)  # Python 3.12 and newer take f-strings apart
_FSTRING_END = getattr(tokenize, "FSTRING_END", -1)
_Scope = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_SCOPES = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def symbol_digest(text: str, qualname: str) -> str:
    """`sha256:…` of `symbol_source`. Raises OracleFault like it."""
    return "sha256:" + hashlib.sha256(symbol_source(text, qualname).encode()).hexdigest()


def symbol_source(text: str, qualname: str) -> str:
    """The source of `qualname` (`Class.method`, `function`, `CONSTANT`), decorators included.

    Dedented, without comments and blank lines; what stands in a string of several lines is kept to the letter. A symbol that is
    defined more than once (overloads, a property's setter, both arms of an `if`) is all its definitions in order.
    Raises OracleFault when the text is no Python or has no such symbol.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise OracleFault(
            f"the source of {qualname} cannot be parsed: {error}", "restore the file"
        ) from error
    symbols: dict[str, list[tuple[int, int]]] = {}
    for name, first, last in _symbols(tree, ""):
        symbols.setdefault(name, []).append((first, last))
    if qualname not in symbols:
        near = difflib.get_close_matches(qualname, symbols, n=1, cutoff=0.4)
        raise OracleFault(f"no symbol {qualname!r}", f"did you mean {near[0]}?" if near else None)
    lines = text.split("\n")
    spans = symbols[qualname]
    return "".join(_normal("\n".join(lines[first - 1 : last]) + "\n") for first, last in spans)


def _symbols(scope: _Scope, prefix: str) -> Iterator[tuple[str, int, int]]:
    """Qualified name, first and last line (from 1) of everything that a scope defines, in order."""
    for node in _statements(scope.body):
        if isinstance(node, _SCOPES):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield prefix + node.name, first, node.end_lineno or node.lineno
            yield from _symbols(node, f"{prefix}{node.name}.")
        else:
            for name in _assigned(node):
                yield prefix + name, node.lineno, node.end_lineno or node.lineno


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a scope, those under `if`, `try`, `with` and loops included."""
    for node in body:
        yield node
        if isinstance(node, _SCOPES):
            continue
        for field in ("body", "handlers", "orelse", "finalbody"):
            for inner in getattr(node, field, []):
                if isinstance(inner, ast.ExceptHandler):
                    yield from _statements(inner.body)
                elif isinstance(inner, ast.stmt):
                    yield from _statements([inner])


def _assigned(node: ast.stmt) -> Iterator[str]:
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = list(node.targets)
    elif isinstance(node, ast.AnnAssign | ast.AugAssign):
        targets = [node.target]
    elif hasattr(ast, "TypeAlias") and isinstance(node, ast.TypeAlias):
        targets = [node.name]
    for target in targets:
        for part in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
            if isinstance(part, ast.Name):
                yield part.id


def _normal(segment: str) -> str:
    """A definition's lines without indentation of its own, comments and blank lines."""
    lines = segment.split("\n")
    indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    comments, continued = _comments_and_strings(segment, indent)
    kept: list[str] = []
    for number, line in enumerate(lines):
        in_string, into_string = number - 1 in continued, number in continued
        if number in comments:
            line = line[: comments[number]]
        if not into_string:
            line = line.rstrip()
        if not in_string:
            line = line.removeprefix(indent)
        if line or in_string or into_string:
            kept.append(line)
    return "\n".join(kept) + "\n"


def _comments_and_strings(segment: str, indent: str) -> tuple[dict[int, int], set[int]]:
    """Line to column of its comment, and the lines whose end lies within a string; lines count from 0."""
    comments: dict[int, int] = {}
    continued: set[int] = set()
    opened: list[int] = []
    # An indented definition is a fragment; under an `if` it is a module.
    lead = "if True:\n" if indent else ""
    shift = 2 if indent else 1
    for token in tokenize.generate_tokens(io.StringIO(lead + segment).readline):
        first, last = token.start[0] - shift, token.end[0] - shift
        if token.type == tokenize.COMMENT:
            comments[first] = token.start[1]
        elif token.type == tokenize.STRING:
            continued.update(range(first, last))
        elif token.type == _FSTRING_START:
            opened.append(first)
        elif token.type == _FSTRING_END:
            continued.update(range(opened.pop(), last))
    return comments, continued

"""A module's functions and conditions by name and by text, so that a decision about them survives moved lines.

coverage.py speaks in line numbers, and these change with every release. Here a line becomes the function whose body it is
in, and a jump becomes the condition that it follows from and the way that it goes.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

import msgspec

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOPS = (ast.For, ast.AsyncFor)
_OPENED = re.compile(r"([(\[{]) ")
_CLOSED = re.compile(r",? ([)\]}])")


class Handler(msgspec.Struct, frozen=True):
    """An `except`: its label, and the first lines of what it guards and of what it does."""

    label: str
    guarded: int
    first: int


class Source:
    """One module's text, taken apart. Raises SyntaxError where it is no Python."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self._owners: dict[int, str] = {}
        self._conditions: dict[
            int, tuple[str, int]
        ] = {}  # line: its text, and the first line of what it guards
        self._handlers: list[Handler] = []
        tree = ast.parse(text)
        self._own(tree, "")
        for node in ast.walk(tree):
            self._note(node)

    def owner(self, line: int) -> str | None:
        """The innermost function whose body holds `line`, as `Class.method`; None for lines that an import executes.

        A function's own head belongs to what is around it, because that executes it.
        """
        return self._owners.get(line)

    def label(self, line: int, target: int) -> str:
        """What the jump from `line` to `target` means: `if CONDITION -> yes`, or `-> no`."""
        if line not in self._conditions:
            return f"{_joined(self._lines[line - 1])} -> {_joined(self._text_of(target))}"
        text, first = self._conditions[line]
        return f"{text} -> {'yes' if target == first else 'no'}"

    @property
    def handlers(self) -> list[Handler]:
        return self._handlers

    def _text_of(self, target: int) -> str:
        return self._lines[target - 1] if target > 0 else "the end"

    def _own(self, scope: ast.AST, prefix: str) -> None:
        """Names the owner of each line; what lies deeper comes later and overwrites."""
        for node in ast.iter_child_nodes(scope):
            if isinstance(node, ast.ClassDef):
                self._own(node, f"{prefix}{node.name}.")
            elif isinstance(node, _FUNCTIONS):
                name = prefix + node.name
                for line in range(_first_line(node.body[0]), (node.end_lineno or node.lineno) + 1):
                    self._owners[line] = name
                self._own(node, f"{name}.")
            else:
                self._own(node, prefix)

    def _note(self, node: ast.AST) -> None:
        if isinstance(node, ast.If | ast.While):
            word = "if" if isinstance(node, ast.If) else "while"
            self._conditions[node.lineno] = (f"{word} {self._segment(node.test)}", _first_line(node.body[0]))
        elif isinstance(node, _LOOPS):
            text = f"for {self._segment(node.target)} in {self._segment(node.iter)}"
            self._conditions[node.lineno] = (text, _first_line(node.body[0]))
        elif isinstance(node, ast.Try):
            for handler in node.handlers:
                what = "" if handler.type is None else f" {self._segment(handler.type)}"
                self._handlers.append(
                    Handler(f"except{what}", _first_line(node.body[0]), _first_line(handler.body[0]))
                )

    def _segment(self, node: ast.expr) -> str:
        """The expression as it is written, in one line and without comments."""
        last = node.end_lineno or node.lineno
        lines = self._lines[node.lineno - 1 : last]
        lines[-1] = _cut(lines[-1], 0, node.end_col_offset)
        lines[0] = _cut(lines[0], node.col_offset, None)
        return _joined("\n".join(lines))


def _cut(line: str, first: int, last: int | None) -> str:
    """A part of a line by the syntax tree's columns, which count bytes."""
    return line.encode()[first:last].decode()


def _first_line(node: ast.stmt) -> int:
    """Where the statement begins for the interpreter: at its first decorator."""
    decorators = node.decorator_list if isinstance(node, (*_FUNCTIONS, ast.ClassDef)) else []
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _joined(text: str) -> str:
    """Source in one line: no comments, single blanks, none inside brackets, no last comma."""
    words = " ".join(" ".join(_without_comments(text)).split())
    return _CLOSED.sub(r"\1", _OPENED.sub(r"\1", words))


def _without_comments(text: str) -> Iterator[str]:
    lines = text.splitlines()
    comments: dict[int, int] = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(f"(\n{text}\n)").readline):
            if token.type == tokenize.COMMENT:
                comments[token.start[0] - 2] = token.start[1]
    except tokenize.TokenError:
        return iter(lines)  # half a statement: it stays as it is
    return iter([line[: comments.get(number)] for number, line in enumerate(lines)])

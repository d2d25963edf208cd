"""Every mutation of a source file, each with an id that stays the same while its symbol does.

A mutant is a text: the file's own, with one node replaced, so that a diff reads like a change that a person made. Standard
library only.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from parity.detection.operators import Change, ignores_order, of_expression, of_head, of_order, of_statement

SILENT = ("__slots__", "__all__", "logger")


@dataclass(frozen=True)
class Mutant:
    """One planted fault: the bytes from `begin` to `end` of its file become `new`.

    `id` is `file::Symbol#number:operator`, `line` counts from 1, `was` and `becomes` are the changed lines without their
    indentation, which identify the mutation where ids have moved.
    """

    id: str
    file: str
    symbol: str
    operator: str
    line: int
    was: str
    becomes: str
    begin: int
    end: int
    new: str

    @property
    def module(self) -> str:
        return module_of(self.file)


def module_of(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".")


def file_of(mutant_id: str) -> str:
    return mutant_id.partition("::")[0]


def mutants_of(root: Path, file: str) -> list[Mutant]:
    """Every mutant of `root/file`, in source order. What does not compile is none."""
    return list(_listed((root / file).read_text(encoding="utf-8"), file))


def find_mutant(root: Path, mutant_id: str) -> Mutant | None:
    """The mutant of that id, None where there is none."""
    file = file_of(mutant_id)
    if not (root / file).is_file():
        return None
    return next((mutant for mutant in mutants_of(root, file) if mutant.id == mutant_id), None)


def source_of(root: Path, mutants: Sequence[Mutant]) -> str:
    """The text of the one file of these mutants, with all of them in it. Raises ValueError where two overlap."""
    (file,) = {mutant.file for mutant in mutants}
    data = (root / file).read_bytes()
    ordered = sorted(mutants, key=lambda mutant: mutant.begin)
    for before, after in pairwise(ordered):
        if after.begin < before.end:
            raise ValueError(f"{before.id} and {after.id} change the same place")
    for mutant in reversed(ordered):
        data = data[: mutant.begin] + mutant.new.encode() + data[mutant.end :]
    return data.decode()


def diff_of(root: Path, mutant: Mutant) -> str:
    """The change as a unified diff of the file, with two lines around it."""
    before = (root / mutant.file).read_text(encoding="utf-8")
    after = source_of(root, [mutant])
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), mutant.file, mutant.id, n=2, lineterm=""
    )
    return "\n".join(lines)


@cache
def _listed(text: str, file: str) -> tuple[Mutant, ...]:
    return tuple(_mutants(text, file))


def _mutants(text: str, file: str) -> Iterator[Mutant]:
    numbers: dict[str, int] = {}
    seen: set[str] = set()
    data = text.encode()
    starts = _line_starts(data)
    tree = ast.parse(text)
    for symbol, node, (operator, new) in _places(tree.body, ""):
        begin = starts[node.lineno - 1] + node.col_offset
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        end = starts[node.end_lineno - 1] + node.end_col_offset
        source = (data[:begin] + new.encode() + data[end:]).decode()
        numbers[symbol] = numbers.get(symbol, 0) + 1
        if source in seen or not _compiles(source, file):
            continue
        seen.add(source)
        was, becomes = _changed_lines(text, source)
        yield Mutant(
            id=f"{file}::{symbol}#{numbers[symbol]}:{operator}",
            file=file,
            symbol=symbol,
            operator=operator,
            line=node.lineno,
            was=was,
            becomes=becomes,
            begin=begin,
            end=end,
            new=new,
        )


Place = tuple[str, ast.stmt | ast.expr, Change]


def _places(body: list[ast.stmt], symbol: str) -> Iterator[Place]:
    """Where the statements of `body`, those of `symbol`, can be changed, and into what."""
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            inner = f"{symbol}.{statement.name}" if symbol else statement.name
            if isinstance(statement, ast.FunctionDef):
                for default in (*statement.args.defaults, *statement.args.kw_defaults):
                    yield from _inside(default, inner)
            yield from _places(statement.body, inner)
            continue
        if _is_silent(statement):
            continue
        here = symbol or "module"
        for change in of_statement(statement):
            yield here, statement, change
        for expression, change in of_head(statement):
            yield here, expression, change
        yield from _parts(statement, symbol)


def _parts(statement: ast.stmt, symbol: str) -> Iterator[Place]:
    """The expressions of one statement, and the statements in it."""
    if isinstance(statement, ast.Raise):
        return
    for name, value in ast.iter_fields(statement):
        if name in ("annotation", "type_params"):
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.stmt):
                yield from _places([item], symbol)
            elif isinstance(item, ast.ExceptHandler):
                yield from _places(item.body, symbol)
            elif isinstance(item, ast.match_case):
                yield from _inside(item.guard, symbol or "module")
                yield from _places(item.body, symbol)
            elif isinstance(item, ast.withitem):
                yield from _inside(item.context_expr, symbol or "module")
            elif isinstance(item, ast.expr):
                yield from _inside(item, symbol or "module")


def _inside(node: ast.AST | None, symbol: str, *, ordered: bool = True) -> Iterator[Place]:
    """An expression's own changes, then those of its parts; nothing inside an f-string."""
    if node is None:
        return
    if isinstance(node, ast.expr):
        for change in of_expression(node):
            yield symbol, node, change
        if ordered:
            for change in of_order(node):
                yield symbol, node, change
    if isinstance(node, ast.JoinedStr):
        return
    free = node.args[:1] if isinstance(node, ast.Call) and ignores_order(node) else []
    for child in ast.iter_child_nodes(node):
        yield from _inside(child, symbol, ordered=child not in free)


def _is_silent(statement: ast.stmt) -> bool:
    """Whether nothing that is observed depends on it: imports, docstrings, types, checks for the reader, logs."""
    if isinstance(statement, (ast.Import, ast.ImportFrom, ast.Assert, ast.Pass, ast.Global)):
        return True
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant) or _names(statement.value) & {"logger"} != set()
    if isinstance(statement, ast.Delete):
        return all(isinstance(target, ast.Name) for target in statement.targets)
    if isinstance(statement, ast.Assign):
        targets = {target.id for target in statement.targets if isinstance(target, ast.Name)}
        return bool(targets & set(SILENT)) or _is_type(statement.value)
    return False


def _names(node: ast.expr) -> set[str]:
    """The name at the root of a call's function: `logger` of `logger.warning(…)`."""
    while isinstance(node, (ast.Call, ast.Attribute)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def _is_type(value: ast.expr) -> bool:
    """Whether an assigned value is a type's other name: `A | B`, `Literal[…]`, `dict[str, int]`."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr):
        return _is_type(value.left) or isinstance(value.left, ast.Name)
    if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name):
        return value.value.id in ("Literal", "Callable", "dict", "list", "tuple", "set", "Annotated")
    return False


def _line_starts(data: bytes) -> list[int]:
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _changed_lines(before: str, after: str) -> tuple[str, str]:
    """The lines that only one of the two texts has, joined and without indentation."""
    matcher = difflib.SequenceMatcher(
        None, old := before.splitlines(), new := after.splitlines(), autojunk=False
    )
    was: list[str] = []
    becomes: list[str] = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag != "equal":
            was += [line.strip() for line in old[i1:i2]]
            becomes += [line.strip() for line in new[j1:j2]]
    return " ".join(was), " ".join(becomes)


def _compiles(source: str, file: str) -> bool:
    try:
        compile(source, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True

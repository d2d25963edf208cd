"""What can be done to one node of a syntax tree so that the program still runs and does something else.

Standard library only: the oracle's environment loads it as well (parity/detection/planted.py). Texts that people read
are left alone, as are annotations, so every mutation changes what is done.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

Change = tuple[str, str]  # the operator's name, and the new text of the node

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list", "reversed": "iter"}
ORDERLESS = ("any", "all", "sum", "min", "max", "set", "frozenset", "sorted", "dict", "len")
METHODS = {"append": "appendleft", "appendleft": "append", "popleft": "pop", "update": "clear"}


def of_expression(node: ast.expr) -> Iterator[Change]:
    """The changes of one expression, each the text that takes its place."""
    match node:
        case ast.Compare():
            yield from _comparisons(node)
        case ast.BinOp() if type(node.op) in ARITHMETIC and not _joins(node):
            yield "arith", _text(ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right))
        case ast.BoolOp():
            yield from _junctions(node)
        case ast.UnaryOp(op=ast.Not()):
            yield "neg", _text(node.operand)
        case ast.IfExp():
            yield "neg", _text(ast.IfExp(_negated(node.test), node.body, node.orelse))
        case ast.Constant():
            yield from _constants(node)
        case ast.JoinedStr() if _is_word(node):
            yield "text", f'({_bare(node)} + "~")'
        case ast.Call():
            yield from _calls(node)
        case ast.Subscript(slice=ast.Slice() as part):
            yield from _slices(node, part)
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            yield from _filters(node)


def of_statement(node: ast.stmt) -> Iterator[Change]:
    """The changes of one statement; of a compound one only those of its head, as `head_of` gives it."""
    match node:
        case ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom()) | ast.AugAssign() | ast.Raise():
            yield "drop", "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "drop", "pass"
        case ast.Delete(targets=[ast.Subscript() | ast.Attribute()]):
            yield "drop", "pass"
        case ast.Return(value=None):
            yield "drop", "pass"
        case ast.Return(value=value) if not (isinstance(value, ast.Constant) and not value.value):
            yield "none", "return None"
        case ast.Continue():
            yield "jump", "break"
        case ast.Break():
            yield "jump", "continue"
    if isinstance(node, ast.AugAssign) and type(node.op) in (ast.Add, ast.Sub, ast.BitOr):
        other = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.BitOr: ast.BitAnd}[type(node.op)]()
        yield "arith", ast.unparse(ast.AugAssign(node.target, other, node.value))


def of_head(node: ast.stmt) -> Iterator[tuple[ast.expr, Change]]:
    """The changes of a compound statement's head: the expression of it that is replaced, and by what."""
    if isinstance(node, (ast.If, ast.While)):
        yield node.test, ("neg", _text(_negated(node.test)))
    if isinstance(node, ast.For):
        yield node.iter, ("turn", f"reversed(list({_bare(node.iter)}))")


def _comparisons(node: ast.Compare) -> Iterator[Change]:
    for index, operator in enumerate(node.ops):
        other = COMPARISONS.get(type(operator))
        if other is not None:
            changed = copy.deepcopy(node)
            changed.ops[index] = other()
            yield "cmp", _text(changed)


def _junctions(node: ast.BoolOp) -> Iterator[Change]:
    other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield "andor", _text(ast.BoolOp(other, node.values))
    for index in range(len(node.values)):
        rest = node.values[:index] + node.values[index + 1 :]
        yield "operand", _text(rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest))


def _constants(node: ast.Constant) -> Iterator[Change]:
    value = node.value
    if isinstance(value, bool):
        yield "const", str(not value)
    elif isinstance(value, int):
        yield "plus", str(value + 1)
        yield "minus", str(value - 1) if value > 0 else f"({value - 1})"
    elif isinstance(value, str) and value and _is_word(node):
        yield "text", repr(value + "~")


def _calls(node: ast.Call) -> Iterator[Change]:
    changed = copy.deepcopy(node)
    if isinstance(node.func, ast.Name) and node.func.id in CALLS and len(node.args) > 0:
        other = CALLS[node.func.id]
        if other in ("list", "iter"):
            yield "order", f"{other}({_bare(node.args[0])})"
        else:
            changed.func = ast.Name(other)
            yield "call", _text(changed)
    if (
        isinstance(node.func, ast.Attribute)
        and node.func.attr in METHODS
        and isinstance(changed.func, ast.Attribute)
    ):
        changed.func.attr = METHODS[node.func.attr]
        if changed.func.attr == "clear":
            changed.args = []
        yield "call", _text(changed)
    if isinstance(node.func, ast.Name) and node.func.id == "len":
        yield "plus", f"({_bare(node)} + 1)"
        yield "minus", f"({_bare(node)} - 1)"


def _slices(node: ast.Subscript, part: ast.Slice) -> Iterator[Change]:
    for name in ("lower", "upper"):
        bound = getattr(part, name)
        if bound is None:
            continue
        for kind, sign in (("plus", ast.Add()), ("minus", ast.Sub())):
            changed = copy.deepcopy(node)
            setattr(changed.slice, name, ast.BinOp(bound, sign, ast.Constant(1)))
            yield kind, _text(changed)


def of_order(node: ast.expr) -> Iterator[Change]:
    """A comprehension the other way round; for places where its order can matter."""
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        changed = copy.deepcopy(node)
        turned = ast.Call(ast.Name("list"), [node.generators[0].iter], [])
        changed.generators[0].iter = ast.Call(ast.Name("reversed"), [turned], [])
        yield "turn", _text(changed)


def ignores_order(node: ast.Call) -> bool:
    """Whether what is called takes the values of its first argument in any order."""
    return isinstance(node.func, ast.Name) and node.func.id in ORDERLESS


def _filters(node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> Iterator[Change]:
    for index, generator in enumerate(node.generators):
        for at, test in enumerate(generator.ifs):
            changed = copy.deepcopy(node)
            changed.generators[index].ifs[at] = _negated(test)
            yield "neg", _text(changed)


def _negated(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    return ast.UnaryOp(ast.Not(), node)


def _joins(node: ast.BinOp) -> bool:
    """Whether this adds texts or lists, which nothing but addition does."""
    ends = (node.left, node.right)
    return isinstance(node.op, (ast.Add, ast.Mod)) and any(
        isinstance(end, (ast.JoinedStr, ast.List, ast.ListComp))
        or (isinstance(end, ast.Constant) and isinstance(end.value, (str, bytes)))
        for end in ends
    )


def _is_word(node: ast.Constant | ast.JoinedStr) -> bool:
    """Whether a text is data: what people read has spaces."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    texts = [part.value for part in parts if isinstance(part, ast.Constant)]
    return all(isinstance(text, str) and not any(mark.isspace() for mark in text) for text in texts)


def _text(node: ast.expr) -> str:
    return f"({_bare(node)})"


def _bare(node: ast.expr) -> str:
    return ast.unparse(ast.fix_missing_locations(copy.deepcopy(node)))

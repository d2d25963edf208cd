"""Which architectures the engine computes, told without torch: read from the sources of engine/models/, not by running them.

A family registers itself in its own file and nowhere else (engine/models/__init__.py::register).
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from functools import cache
from pathlib import Path

from engine.errors import ModelError


@cache
def architectures() -> frozenset[str]:
    """Every name in a `register(...)` of a module of engine/models/."""
    return frozenset(
        argument.value
        for path in (Path(__file__).parent / "models").glob("*.py")
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "register"
        for argument in node.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    )


def check_computed(architecture: str | None, quantised: bool, known: Collection[str]) -> None:
    """Raise ModelError for an architecture that is none of `known`, and for quantised weights."""
    if architecture is None:
        raise ModelError(
            "config.json names no architecture: add one, such as LlamaForCausalLM, to `architectures`"
        )
    if architecture not in known:
        raise ModelError(f"no family computes {architecture}: choose a model of {', '.join(sorted(known))}")
    if quantised:
        raise ModelError("quantised weights are not supported: use a model saved in float32 or bfloat16")

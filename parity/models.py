"""The table of model shapes: a scenario names a shape, so that no hub and no weights are needed."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from parity.decode import decode
from parity.document import Fault, line_at, nearest, parse
from parity.errors import ScenarioError
from parity.scenario import Model, Positive

TABLE = Path(__file__).with_name("models.yaml")

FIRST_GENERATED_ID = 1000
MIN_VOCAB = 2 * FIRST_GENERATED_ID


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of the table. The vocabulary leaves room for generated ids, which start at 1000."""

    num_layers: Positive
    num_kv_heads: Positive
    head_size: Positive
    max_position: Positive
    vocab_size: Annotated[int, Meta(ge=MIN_VOCAB)]


def read_models(data: bytes, path: str) -> dict[str, Model]:
    """A table's models by name. Raises ScenarioError with file and line."""
    tree = None
    try:
        tree = parse(data)
        shapes = decode(tree, dict[str, Shape])
    except Fault as fault:
        line = line_at(tree, fault.keys) if tree else fault.line
        raise ScenarioError(path, fault.message, line=line, hint=fault.hint) from None
    return {name: Model(name=name, **msgspec.structs.asdict(shape)) for name, shape in shapes.items()}


@cache
def models() -> dict[str, Model]:
    return read_models(TABLE.read_bytes(), "parity/models.yaml")


def model(name: str) -> Model:
    """The shape called `name`. Raises Fault that names the nearest one."""
    known = models()
    if name not in known:
        raise Fault(f"no model {name!r} in parity/models.yaml", hint=nearest(name, known))
    return known[name]

"""The table of models that can be served: a scenario names a folder of `.models/`, and ids are generated for it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from parity.decode import decode
from parity.document import Fault, nearest, parse
from parity.scenario import Positive

TABLE = Path(__file__).with_name("models.yaml")


class Served(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of the table: the ids that may be generated for a prompt are [first_id, end_id)."""

    first_id: Positive
    end_id: Positive


@cache
def served_models() -> dict[str, Served]:
    return decode(parse(TABLE.read_bytes()), dict[str, Served])


def served_model(name: str) -> Served:
    """The row of the folder `name`. Raises Fault that names the nearest one."""
    known = served_models()
    if name not in known:
        raise Fault(f"no model {name!r} in parity/serve/models.yaml", hint=nearest(name, known))
    return known[name]

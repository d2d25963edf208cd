"""`python -m tests.parity.zoo VICE`: one subject of the zoo; `VICE` may be followed by what it is about."""

from __future__ import annotations

import re
import sys

from tests.parity.zoo import engines, speakers
from tests.parity.zoo.honest import Honest


def _vices() -> dict[str, type[Honest]]:
    found = {}
    for module in (engines, speakers):
        for name, value in vars(module).items():
            if isinstance(value, type) and issubclass(value, Honest):
                found[re.sub(r"(?<=[a-z])(?=[A-Z0-9])|(?<=A)(?=[A-Z])", "-", name).lower()] = value
    return found


if __name__ == "__main__":
    _vices()[sys.argv[1]](*sys.argv[2:]).serve()

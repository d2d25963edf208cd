"""The names that a scenario may use for its properties and its family, in one small table.

The loader refuses a waiver of a property that the level does not have, and a folder that is no
family; the properties themselves are judged elsewhere.
"""

from __future__ import annotations

from parity.scenario import Level

PROPERTIES: dict[Level, tuple[str, ...]] = {
    "plan": ("serves-advertised-length", "label-within-usable"),
    "schedule": ("terminates", "no-block-leak"),
    "serve": (
        "answers",
        "exits-on-signal",
        "health-tells-the-truth",
        "stream-is-well-formed",
        "usage-adds-up",
        "frees-after-disconnect",
    ),
}

FAMILIES: tuple[str, ...] = (
    "block-count",
    "auto-fit",
    "admission",
    "preemption",
    "caching",
    "chunking",
    "serving",
    "shutdown",
    "numerics",
)

"""The engine's deliberate differences: one named switch each, `pin` being what the mirrored version does.

| policy | value | meaning |
|---|---|---|
| `null-block-capacity` | `pin` | what the mirrored version does (today the same as `count`) |
| | `count` | start-up arithmetic counts the null block as usable |
| | `reserve` | auto-fit and the admission check see one block's bytes less, as upstream from 0.29.0 on |
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec


class NullBlockCapacity(StrEnum):
    """Whether start-up arithmetic may promise the block that can never be handed out."""

    PIN = "pin"
    COUNT = "count"
    RESERVE = "reserve"

    @property
    def reserves(self) -> bool:
        """Whether one block is kept out of what auto-fit and the admission check may spend."""
        return self is NullBlockCapacity.RESERVE


class Policies(msgspec.Struct, frozen=True):
    """One chosen value for every policy; the defaults are what the mirrored version does."""

    null_block_capacity: NullBlockCapacity = NullBlockCapacity.PIN


class Policy(msgspec.Struct, frozen=True):
    """A row of the policy table: its name, and what each allowed value does."""

    name: str
    values: dict[str, str]
    default: str


class PolicyError(ValueError):
    """A policy or a value that does not exist; the message names the nearest one that does."""


TABLE: tuple[Policy, ...] = (
    Policy(
        name="null-block-capacity",
        values={
            "pin": "what the mirrored version does",
            "count": "the null block counts as usable capacity",
            "reserve": "auto-fit and the admission check plan without the null block's bytes",
        },
        default="pin",
    ),
)


def resolve(chosen: Mapping[str, str] | None) -> Policies:
    """The policies in force when `chosen` overrides some defaults.

    Raises PolicyError for a name or value that is not in the table.
    """
    values = {policy.name: policy.default for policy in TABLE}
    for name, value in (chosen or {}).items():
        if name not in values:
            raise PolicyError(f"unknown policy {name!r}; did you mean {_nearest(name, values)!r}?")
        allowed = next(policy.values for policy in TABLE if policy.name == name)
        if value not in allowed:
            raise PolicyError(
                f"policy {name!r} has no value {value!r}; did you mean {_nearest(value, allowed)!r}? "
                f"(allowed: {', '.join(allowed)})"
            )
        values[name] = value
    return Policies(null_block_capacity=NullBlockCapacity(values["null-block-capacity"]))


def _nearest(word: str, known: Iterable[str]) -> str:
    """The known word that resembles `word` most; the first one where none resembles it."""
    words = list(known)
    return (difflib.get_close_matches(word, words, n=1, cutoff=0.0) or words)[0]

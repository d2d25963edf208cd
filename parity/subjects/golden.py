"""Golden lines: what upstream did in a few scenarios, shipped, for whoever has no upstream at hand.

`parity/golden/<level>.jsonl` has a header and then a line for each scenario of that level: the scenario as a subject
gets it, upstream's observation, and the capabilities that it needs. Two observations are the same if they are the
same JSON value, the order of an object's keys apart; docs/plug-in.md says how to replay them in any language.
`parity/golden/scenarios.txt` chooses them, and `make golden` writes them anew from the live oracle.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from parity.errors import HarnessError
from parity.observation import Observation, decode, plain
from parity.scenario import Json, Scenario

FOLDER = Path(__file__).resolve().parents[1] / "golden"
CHOSEN = "scenarios.txt"
FORMAT = 1
LEVELS = ("plan", "schedule")


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose observations these are: the pin and the version that it reported, and the digest of the driver that read them."""

    format: int
    pin: str
    version: str
    driver: str
    made: str  # a date
    suite: str


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One scenario on the wire, as it is written."""

    scenario: Scenario
    observation: Json
    needs: list[str]


class Golden(msgspec.Struct, frozen=True):
    """One scenario, and what upstream did in it."""

    scenario: Scenario
    observation: Observation
    needs: tuple[str, ...]

    @property
    def id(self) -> str:
        return self.scenario.id


def load_golden(folder: Path = FOLDER) -> tuple[Header, list[Golden]]:
    """The header and all golden lines, plans first. Raises HarnessError where the shipped files are not whole."""
    headers, found = [], []
    for level in LEVELS:
        path = folder / f"{level}.jsonl"
        try:
            first, *rest = path.read_bytes().splitlines()
            headers.append(msgspec.json.decode(first, type=Header))
            lines = [msgspec.json.decode(line, type=Line) for line in rest]
            found += [
                Golden(line.scenario, decode(line.scenario.level, line.observation), tuple(line.needs))
                for line in lines
            ]
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            raise HarnessError(
                f"{path}: {error}", hint="check the file out again, or run `make golden`"
            ) from None
    return headers[0], found


def chosen(folder: Path = FOLDER) -> list[str]:
    """The ids of the scenarios that golden lines are made of."""
    lines = (folder / CHOSEN).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def text(header: Header, level: str, lines: Iterable[Golden]) -> str:
    """The content of one level's file."""
    written = [msgspec.json.encode(header)]
    written += [
        msgspec.json.encode(Line(item.scenario, plain(item.observation), list(item.needs)))
        for item in lines
        if item.scenario.level == level
    ]
    return "".join(line.decode() + "\n" for line in written)

"""What a run is asked to do: which scenarios, how deep, under which choices of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from engine.policies import PolicyError, resolve
from parity.errors import UsageError
from parity.scenario import Case
from parity.suite import select

DEFAULT_CHOICE = "pin"
FULL_OUTCOMES = 5  # a full run plays a scenario with `outcomes: n` this many times n

Depth = Literal["quick", "usual", "full"]


class Ask(msgspec.Struct, frozen=True):
    """What a run is asked to do.

    `ids` and `family` choose a part of the suite; neither means all of it. `depth` quick leaves the level
    serve out, full adds what is marked `full`. `repeat` is the number of plays a side where a scenario says
    nothing of outcomes, of a server's `serve_repeat`; `outcomes` replaces the number that a scenario says.
    `subject` and `against` name subjects or their files: who is held against the reference (null: the engine), and who
    is that reference (null: the oracle). `debug` asks the oracle's driver for
    upstream's native output of each step.
    """

    root: Path
    pin: str | None = None
    ids: tuple[str, ...] = ()
    family: str | None = None
    policies: dict[str, str] = {}
    repeat: int = 1
    serve_repeat: int = 1
    outcomes: int | None = None
    depth: Depth = "usual"
    subject: str | None = None
    against: str | None = None
    debug: bool = False
    out: Path | None = None

    @property
    def chosen(self) -> bool:
        """Whether somebody picked scenarios out."""
        return bool(self.ids) or self.family is not None

    @property
    def partial(self) -> bool:
        """Whether less than the usual suite is played."""
        return self.chosen or self.depth == "quick"

    def times(self, case: Case) -> int:
        """How often each side plays this case."""
        if case.outcomes is not None:
            return self.outcomes or case.outcomes * (FULL_OUTCOMES if self.depth == "full" else 1)
        if case.scenario.level != "serve":
            return self.repeat
        return 1 if case.scenario.ends_server else self.serve_repeat


def choose(ask: Ask, suite: Sequence[Case]) -> list[Case]:
    """The cases to play, sorted by id. Raises UsageError for a selection that is empty.

    What is marked `full` is played where its own id is named, or the depth is full.
    """
    found = [case for case in select(suite, ask.ids, ask.family) if is_deep_enough(ask, case)]
    if not found:
        raise UsageError(
            "what was chosen is played by a full run only", hint="add --full, or name a scenario's id"
        )
    if ask.outcomes is not None and all(case.outcomes is None for case in found):
        raise UsageError(
            "--outcomes is for scenarios that say `outcomes`, and none is to be played", hint="leave it out"
        )
    return found


def is_deep_enough(ask: Ask, case: Case) -> bool:
    if ask.depth == "quick" and case.scenario.level == "serve":
        return False
    return not case.full or ask.depth == "full" or case.id in ask.ids


def parse_policies(choices: Sequence[str]) -> dict[str, str]:
    """`NAME=VALUE` choices as a table, the pin's own left out. Raises UsageError naming the nearest."""
    chosen: dict[str, str] = {}
    for choice in choices:
        name, separator, value = choice.partition("=")
        if not separator:
            raise UsageError(f"--policy takes NAME=VALUE, not {choice!r}")
        if chosen.setdefault(name, value) != value:
            raise UsageError(f"--policy {name} is given twice, with {chosen[name]} and {value}")
    try:
        resolve(chosen)
    except PolicyError as error:
        raise UsageError(str(error)) from None
    return {name: value for name, value in chosen.items() if value != DEFAULT_CHOICE}

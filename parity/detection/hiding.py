"""What is done to one fault, or two at once, in a child, to learn what shows: in the suite, on record, in a hunt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from parity.detection.killing import UNLOADABLE, planted_engine, planted_side
from parity.detection.mutation import Mutant
from parity.detection.pool import Hunt, Pool
from parity.detection.recording import Shown
from parity.detection.replay import SECONDS, Check, everything
from parity.finding import Plays


def by_everything(check: Check, oracle: Mapping[str, Plays], mutants: Sequence[Mutant]) -> Callable[[], Any]:
    """Work: every finding of the suite, as plain JSON; null where a play crashes or the engine cannot be loaded."""

    def work() -> Any:
        engine = planted_engine(mutants)
        return None if engine is None else msgspec.to_builtins(everything(check, oracle, engine))

    return work


def by_recorded(
    check: Check, oracle: Mapping[str, Plays], mutants: Sequence[Mutant], shown: Sequence[Shown]
) -> Callable[[], Any]:
    """Work: the check where these findings are on record. Its answer is whether it is green."""

    def work() -> bool:
        engine = planted_engine(mutants)
        if engine is None:
            return False
        return check.recording(shown).whole(oracle, engine).exit_code == 0

    return work


def by_known(pool: Pool, mutants: Sequence[Mutant], known: frozenset[str], depth: int) -> Callable[[], Any]:
    """Work: what is known of a hunt once all that these show in it is on record, sorted."""

    def work() -> list[str]:
        side = planted_side(mutants)
        return (
            sorted(known) if side is None else sorted(Hunt(pool, side(seconds=SECONDS), depth).closed(known))
        )

    return work


def by_hunt(pool: Pool, mutants: Sequence[Mutant], known: frozenset[str], depth: int) -> Callable[[], Any]:
    """Work: the first scenario's fingerprints that are not known, sorted; none where all stays hidden."""

    def work() -> list[str]:
        side = planted_side(mutants)
        if side is None:
            return [UNLOADABLE]
        return sorted(Hunt(pool, side(seconds=SECONDS), depth).new(known, early=True))

    return work

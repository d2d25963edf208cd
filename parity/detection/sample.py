"""Which mutants a run plants: of every file as many as its share, the same ones for the same seed.

A mutant's rank is a hash of the seed, its id and its change, so that a change elsewhere in the file leaves the choice alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from parity.detection.mutation import Mutant


def pick(mutants: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """`count` of the mutants of one file, in source order; every operator once before any comes twice."""
    ranked = sorted(mutants, key=lambda mutant: _rank(mutant, seed))
    rounds: dict[str, int] = {}
    placed: list[tuple[int, int, Mutant]] = []
    for place, mutant in enumerate(ranked):
        turn = rounds.get(mutant.operator, 0)
        rounds[mutant.operator] = turn + 1
        placed.append((turn, place, mutant))
    chosen = {mutant.id for _, _, mutant in sorted(placed, key=lambda item: item[:2])[:count]}
    return [mutant for mutant in mutants if mutant.id in chosen]


def _rank(mutant: Mutant, seed: int) -> str:
    text = f"{seed}\n{mutant.file}\n{mutant.symbol}\n{mutant.was}\n{mutant.becomes}"
    return hashlib.sha256(text.encode()).hexdigest()

"""What one side did in its plays of a scenario: the distinct observations, how often each came, and what each breaks.

Two plays are one outcome where nothing compared differs between them, ties settled. The subject's plays are settled
against the oracle's outcomes, so that an equal outcome has the same digest on both sides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from parity.diff import first_difference
from parity.finding import Broken, Difference, Plays, Seen, Side, Tie
from parity.fingerprint import broken_shape
from parity.observation import Observation, Serve, digest, plain
from parity.properties import broken_properties
from parity.scenario import Case
from parity.summary import summarise
from parity.ties import settle

BrokenShapes = dict[str, Broken]  # the readable line of a shape → the first break that has it


class Outcomes(msgspec.Struct, frozen=True):
    """One side's outcomes by digest, in the order in which they came.

    `broken` has of each property that any outcome breaks every shape in which it does, ordered by shape, so that
    what is found does not depend on which outcome came first.
    """

    side: Side
    observations: dict[str, Observation]
    seen: dict[str, Seen]
    broken: dict[str, BrokenShapes]
    ties: tuple[Tie, ...] = ()

    @property
    def digest(self) -> str:
        """The observation's digest where there is one; of the set of digests where there are several."""
        if len(self.seen) == 1:
            return next(iter(self.seen))
        return "sha256:" + hashlib.sha256("\n".join(sorted(self.seen)).encode()).hexdigest()

    @property
    def usual(self) -> str:
        """The digest of the most frequent outcome."""
        return min(self.seen, key=lambda key: (-self.seen[key].count, key))


def difference_of(oracle: Observation, subject: Observation) -> Difference | None:
    """The first difference between two observations that is none of a tie; null where nothing compared differs."""
    return first_difference(plain(oracle), plain(_settled(oracle, subject)[0]))


def outcomes(case: Case, side: Side, plays: Plays, references: Mapping[str, Observation]) -> Outcomes:
    """The side's plays as outcomes. `references` are the other side's, the most frequent first; empty for the oracle."""
    observations: dict[str, Observation] = {}
    counts: dict[str, int] = {}
    breaks: dict[str, dict[str, list[Broken]]] = {}
    ties: list[Tie] = []
    waived = {waiver.property for waiver in case.waive}
    for played in plays.observations:
        key, observation, found = _recognised(played, {**references, **observations})
        counts[key] = counts.get(key, 0) + 1
        ties += [tie for tie in found if tie not in ties]
        if key in observations:
            continue
        observations[key] = observation
        breaks[key] = {}
        for item in broken_properties(case.scenario, played, waived=waived):
            breaks[key].setdefault(item.property, []).append(item)
    seen = {
        key: Seen(count, summarise(observations[key]), tuple(breaks[key])) for key, count in counts.items()
    }
    return Outcomes(side, observations, seen, _by_shape(case, breaks), tuple(ties))


def _recognised(played: Observation, known: Mapping[str, Observation]) -> tuple[str, Observation, list[Tie]]:
    """The play's digest, the play settled, and its ties: against the known outcome that it is, or the first."""
    if not isinstance(played, Serve):
        return digest(played), played, []
    first: tuple[str, Observation, list[Tie]] | None = None
    for reference in known.values():
        observation, ties = _settled(reference, played)
        found = (digest(observation), observation, ties)
        if first_difference(plain(reference), plain(observation)) is None:
            return found
        first = first or found
    return first or (digest(played), played, [])


def _settled(oracle: Observation, subject: Observation) -> tuple[Observation, list[Tie]]:
    if isinstance(oracle, Serve) and isinstance(subject, Serve):
        return settle(oracle, subject)
    return subject, []


def _by_shape(case: Case, breaks: Mapping[str, Mapping[str, list[Broken]]]) -> dict[str, BrokenShapes]:
    shapes: dict[str, BrokenShapes] = {}
    for key in sorted(breaks):
        for name, items in breaks[key].items():
            for item in items:
                line = broken_shape(case.scenario.level, "mirrored", item, item).line
                shapes.setdefault(name, {}).setdefault(line, item)
    return {name: dict(sorted(found.items())) for name, found in shapes.items()}

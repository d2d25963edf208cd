"""The hunt that a masked fault may hide in: scenarios as `parity fuzz` draws them, played on the oracle once.

The engine with faults in it is then played on them, and judged as a hunt judges: by fingerprints alone, or looking behind
what is known. Once drawn, the untouched engine stands in for the oracle, which it agrees with in every scenario of the
pool (`gather` makes sure): the scenarios that stand behind a known finding are not known beforehand.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from parity.detection.material import Say
from parity.engine_side import EngineSide
from parity.errors import InconclusiveError
from parity.fuzz import behaviours
from parity.fuzz.behind import looked_behind
from parity.fuzz.document import Document, case_from
from parity.fuzz.examine import Examined, Examiner, always, trouble_of
from parity.fuzz.search import Search
from parity.observation import Observation
from parity.oracle_side import find_pin, start_oracle
from parity.scenario import Scenario

ROUNDS = 5  # of a hunt with one fault, each with what the last one showed as known


class Drawn(NamedTuple):
    """A scenario of level schedule as it was drawn, and what the oracle does in it."""

    document: Document
    scenario: Scenario
    observation: Observation


Pool = list[Drawn]


def gather(root: Path, count: int, seed: int, say: Say) -> Pool:
    """Draw `count` scenarios, steered by what the live oracle does in them; equal seeds give equal pools.

    Raises OracleError, and InconclusiveError where the oracle fails, or the untouched engine differs from it.
    """
    side = start_oracle(root, find_pin(root, None))
    search = Search("schedule", f"masking:{seed}")
    engine = EngineSide()
    pool: Pool = []
    try:
        side.hello()
        while len(pool) < count:
            document = search.draw()
            scenario = case_from(document).scenario
            assert isinstance(scenario, Scenario)
            side.begin(scenario)
            engine.begin(scenario)
            ours, theirs = engine.finish(), side.finish()
            if theirs.observation is None or ours.observation != theirs.observation:
                reason = theirs.failure or "the engine does otherwise with nothing planted"
                raise InconclusiveError(f"generated scenario {len(pool)}: {reason}", hint="run `parity fuzz`")
            pool.append(Drawn(document, scenario, theirs.observation))
            names = behaviours.reached(scenario, theirs.observation)
            search.keep(names | behaviours.pairs(names))
    finally:
        side.close()
    say(f"{count} generated scenarios played on the oracle")
    return pool


def alike(pool: Pool) -> frozenset[str]:
    """The fingerprints of what both sides show in the pool with nothing planted: oddities that they share."""
    examiner = Examiner(always(EngineSide(), EngineSide()), mirrors=True)
    return frozenset(
        finding.fingerprint for drawn in pool for finding in examiner.examine(drawn.document).findings
    )


class Hunt:
    """A hunt over the pool on one engine. `depth` is how often it looks behind a known difference; 0 for never.

    Where the engine does as the oracle does nothing is told: what both show alike is no fault's.
    """

    def __init__(self, pool: Pool, engine: EngineSide, depth: int) -> None:
        self._pool = pool
        self._engine = engine
        self._examiner = Examiner(always(EngineSide(), engine), mirrors=True)
        self._depth = depth

    def new(self, known: frozenset[str], *, early: bool) -> set[str]:
        """The fingerprints that are not known; `early` ends with the first scenario that has one."""
        found: set[str] = set()
        for drawn in self._pool:
            found |= self._new_in(drawn, known)
            if found and early:
                break
        return found

    def closed(self, known: frozenset[str]) -> frozenset[str]:
        """What is known once all is on record that this engine shows in the hunt, behind what is known as well."""
        for _ in range(ROUNDS):
            new = self.new(known, early=False)
            if not new:
                break
            known |= new
        return known

    def _new_in(self, drawn: Drawn, known: frozenset[str]) -> set[str]:
        self._engine.begin(drawn.scenario)
        if self._engine.finish().observation == drawn.observation:
            return set()
        return self._new(drawn.document, self._examiner.look(drawn.document), known, self._depth)

    def _new(self, document: Document, seen: Examined, known: frozenset[str], depth: int) -> set[str]:
        trouble = trouble_of(seen.judged)
        if trouble is not None:
            return {trouble} - known
        new: set[str] = set()
        for finding in seen.judged.findings:
            if finding.fingerprint not in known:
                new.add(finding.fingerprint)
            elif finding.attribution != "mirrored" and depth > 0:
                left = looked_behind(document, finding, seen, self._examiner.look)
                if left is not None:
                    new |= self._new(*left, known, depth - 1)
        return new

"""The hunt that a masked fault may hide in: scenarios as `parity fuzz` draws them, played on the oracle once.

The engine with faults in it is then played on them, and judged as a hunt judges: by fingerprints alone, or looking behind
what is known. The scenarios that stand behind are not known beforehand; for those the untouched engine stands in for the
oracle, which it agrees with in all scenarios of the pool (`gather` makes sure).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from parity.detection.material import Say
from parity.document import Fault
from parity.engine_side import EngineSide
from parity.errors import InconclusiveError
from parity.fuzz import behaviours
from parity.fuzz.behind import undone
from parity.fuzz.document import Document, case_from
from parity.fuzz.examine import Examined, Examiner, trouble_of
from parity.fuzz.search import Search
from parity.observation import Observation
from parity.oracle_side import find_pin, start_oracle
from parity.scenario import Scenario, scenario_hash
from parity.side import Play

ROUNDS = 5  # of a hunt with one fault, each with what the last one showed as known


class Pool(NamedTuple):
    """Drawn scenarios of level schedule, and the oracle's observations by the scenario's hash."""

    documents: list[Document]
    observations: Mapping[str, Observation]


def gather(root: Path, count: int, seed: int, say: Say) -> Pool:
    """Draw `count` scenarios, steered by what the live oracle does in them; equal seeds give equal pools.

    Raises OracleError, and InconclusiveError where the oracle fails, or the untouched engine differs from it.
    """
    side = start_oracle(root, find_pin(root, None))
    search = Search("schedule", f"masking:{seed}")
    engine = EngineSide()
    documents: list[Document] = []
    observations: dict[str, Observation] = {}
    try:
        side.hello()
        while len(documents) < count:
            document = search.draw()
            scenario = case_from(document).scenario
            assert isinstance(scenario, Scenario)
            side.begin(scenario)
            engine.begin(scenario)
            ours, theirs = engine.finish(), side.finish()
            if theirs.observation is None or ours.observation != theirs.observation:
                reason = theirs.failure or "the engine does otherwise with nothing planted"
                raise InconclusiveError(
                    f"generated scenario {len(documents)}: {reason}", hint="run `parity fuzz`"
                )
            documents.append(document)
            observations[scenario_hash(scenario)] = theirs.observation
            names = behaviours.reached(scenario, theirs.observation)
            search.keep(names | behaviours.pairs(names))
    finally:
        side.close()
    say(f"{count} generated scenarios played on the oracle")
    return Pool(documents, observations)


class Reference:
    """The oracle's side of a hunt: what it did in the pool, and elsewhere what the untouched engine does."""

    name = "oracle"

    def __init__(self, pool: Pool) -> None:
        self._observations = pool.observations
        self._engine = EngineSide()
        self._scenario: Scenario | None = None

    def begin(self, scenario: Scenario) -> None:
        self._scenario = scenario

    def finish(self) -> Play:
        assert self._scenario is not None
        found = self._observations.get(scenario_hash(self._scenario))
        if found is not None:
            return Play(found, None, 0.0)
        self._engine.begin(self._scenario)
        return self._engine.finish()

    def close(self) -> None:
        """Nothing to end."""


class Hunt:
    """A hunt over the pool on one engine. `depth` is how often it looks behind a known difference; 0 for never."""

    def __init__(self, pool: Pool, engine: EngineSide, depth: int) -> None:
        self._pool = pool
        self._examiner = Examiner(Reference(pool), engine, mirrors=True)
        self._depth = depth

    def new(self, known: frozenset[str], *, early: bool) -> set[str]:
        """The fingerprints that are not known; `early` ends with the first scenario that has one."""
        found: set[str] = set()
        for document in self._pool.documents:
            found |= self.new_findings(document, known)
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

    def new_findings(self, document: Document, known: frozenset[str]) -> set[str]:
        """What one scenario shows that is not known, and what stands behind the known in it."""
        return self._new(document, self._examiner.look(document), known, self._depth)

    def _new(self, document: Document, seen: Examined, known: frozenset[str], depth: int) -> set[str]:
        trouble = trouble_of(seen.judged)
        if trouble is not None:
            return {trouble} - known
        new: set[str] = set()
        for finding in seen.judged.findings:
            if finding.fingerprint not in known:
                new.add(finding.fingerprint)
            elif finding.attribution != "mirrored" and depth > 0:
                rest = undone(document, finding, seen)
                if rest is not None:
                    new |= self._again(rest, known, depth - 1)
        return new

    def _again(self, rest: Document, known: frozenset[str], depth: int) -> set[str]:
        try:
            seen = self._examiner.look(rest)
        except Fault:  # the rest asks for what no scenario may ask for
            return set()
        return self._new(rest, seen, known, depth)

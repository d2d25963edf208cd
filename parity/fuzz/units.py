"""Does a unit: draws its scenarios, plays and judges each, and gathers what came of it.

The search within a unit is steered by what the two sides did, and a unit draws from nothing but its own level, seed and
index, so that it gives the same wherever it is done. A unit ends early where a side fails too often: the rest would cost
a deadline each, or is not played at all by a process that is not started again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

from parity.finding import Finding
from parity.fuzz import behaviours
from parity.fuzz.behind import DEPTH, is_explained, looked_behind
from parity.fuzz.document import Document
from parity.fuzz.drawing import SERVERS
from parity.fuzz.examine import Examined, Examiner, is_of_a_process, trouble_of
from parity.fuzz.known import Known
from parity.fuzz.search import Search
from parity.fuzz.unit import Done, Find, Spent, Unit
from parity.observation import Schedule

IN_A_ROW = 12  # units
MOST_VOID = 10  # plays of a unit that the engine may fail in


class Bench:
    """The sides of a unit. `pinned` plays at the pin's own choices, where the hunt itself is under a policy."""

    def __init__(
        self, examiner: Examiner, known: Known, pinned: tuple[Examiner, Known] | None = None
    ) -> None:
        self.examiner = examiner
        self.known = known
        self.pinned = pinned


def do(unit: Unit, bench: Bench) -> Done:
    """All of a unit's scenarios, drawn one after the other, played and judged."""
    gathering = _Gathering(unit, bench)
    search = Search(unit.level, f"{unit.level}:{unit.seed}:{unit.index}", servers_of(unit))
    making = 0.0
    for _ in range(unit.size):
        began = time.perf_counter()
        document = search.draw()
        making += time.perf_counter() - began
        search.keep(gathering.take(document))
        if gathering.is_over:
            break
    return gathering.done(making)


def servers_of(unit: Unit) -> Sequence[dict[str, Any]]:
    """The configuration that a unit of level serve plays on: the same for many in a row, as another costs two starts."""
    return (SERVERS[unit.index // IN_A_ROW % len(SERVERS)],)


class _Gathering:
    """What a unit has shown so far."""

    def __init__(self, unit: Unit, bench: Bench) -> None:
        self._unit = unit
        self._bench = bench
        self._scenarios = 0
        self._states: set[int] = set()
        self._behaviours: Counter[str] = Counter()
        self._pairs: set[str] = set()
        self._known: Counter[str] = Counter()
        self._behind: Counter[str] = Counter()
        self._finds: dict[str, Find] = {}
        self._steps: list[int] = []
        self._voids = 0
        self.is_over = False
        self._taking = 0.0
        self._examiners = [bench.examiner, *([] if bench.pinned is None else [bench.pinned[0]])]
        self._before = self._totals()

    def take(self, document: Document) -> frozenset[Hashable]:
        """Play one scenario and note what it shows: the behaviours, their pairs and the states, which steer the search."""
        began = time.perf_counter()
        try:
            return self._take(document)
        finally:
            self._taking += time.perf_counter() - began

    def _take(self, document: Document) -> frozenset[Hashable]:
        seen = self._look(self._bench.examiner, document)
        self._judge(document, seen, self._bench.examiner, self._bench.known, DEPTH)
        self._scenarios += 1
        if seen.oracle is None:
            return frozenset()
        names = behaviours.reached(seen.case.scenario, seen.oracle)
        pairs = behaviours.pairs(names)
        self._behaviours.update(names)
        self._pairs |= pairs
        self._states |= behaviours.states(seen.oracle)
        if isinstance(seen.oracle, Schedule):
            self._steps.append(len(seen.oracle.steps))
        return names | pairs

    def _look(self, examiner: Examiner, document: Document) -> Examined:
        seen = examiner.look(document)
        if seen.judged.failure is not None:
            self._voids += 1
            self.is_over |= self._voids >= MOST_VOID or is_of_a_process(seen.judged)
        return seen

    def _judge(
        self, document: Document, seen: Examined, examiner: Examiner, known: Known, depth: int
    ) -> None:
        trouble = trouble_of(seen.judged)
        if trouble is not None:
            self._note(document, trouble, seen, None, examiner)
        for finding in seen.judged.findings:
            record = known.record_of(finding)
            if record is None or (record in known.refusals and not is_explained(document, finding)):
                self._confirm(document, finding, seen, examiner)
                continue
            self._known[record] += 1
            if finding.attribution != "mirrored" and depth > 0:
                self._look_behind(document, finding, seen, examiner, known, record, depth)

    def _look_behind(
        self,
        document: Document,
        finding: Finding,
        seen: Examined,
        examiner: Examiner,
        known: Known,
        record: str,
        depth: int,
    ) -> None:
        """What the known difference may hide: under a policy at the pin's own choice, else with it undone."""
        if self._bench.pinned is not None and examiner is self._bench.examiner:
            examiner, known = self._bench.pinned
            left: tuple[Document, Examined] | None = document, self._look(examiner, document)
        else:
            left = looked_behind(document, finding, seen, partial(self._look, examiner))
        if left is not None:
            self._behind[record] += 1
            self._judge(*left, examiner, known, depth - 1)

    def _confirm(self, document: Document, finding: Finding, seen: Examined, examiner: Examiner) -> None:
        """A new finding must show twice; where it does not, a side failed the second time or disagrees with itself."""
        if finding.fingerprint in self._finds:
            return
        again = self._look(examiner, document)
        if again.shows(finding.fingerprint):
            self._note(document, finding.fingerprint, seen, finding, examiner)
        else:
            said = trouble_of(again.judged) or _whose_disagreement(seen, again)
            self._note(document, said, again, None, examiner)

    def _note(
        self,
        document: Document,
        fingerprint: str,
        seen: Examined,
        finding: Finding | None,
        examiner: Examiner,
    ) -> None:
        if fingerprint in self._finds:
            return
        judged = seen.judged
        said = judged.failure or judged.flaky or "shown in one play and not in the next"
        self._finds[fingerprint] = Find(
            fingerprint=fingerprint,
            shape=said if finding is None else finding.shape,
            attribution=None if finding is None else finding.attribution,
            property=None if finding is None else finding.property,
            at="" if finding is None else finding.at,
            oracle=None if finding is None else finding.oracle,
            subject=None if finding is None else finding.subject,
            document=document,
            unit=self._unit.index,
            ordinal=self._scenarios,
            policies=self._unit.policies if examiner is self._bench.examiner else {},
        )

    def _totals(self) -> tuple[int, float, float, float]:
        return (
            sum(examiner.plays for examiner in self._examiners),
            sum(examiner.oracle_seconds for examiner in self._examiners),
            sum(examiner.subject_seconds for examiner in self._examiners),
            sum(examiner.waited for examiner in self._examiners),
        )

    def done(self, making: float) -> Done:
        """What came of the unit, the making of whose scenarios took so many seconds."""
        plays, oracle, subject, waited = (
            after - before for after, before in zip(self._totals(), self._before, strict=True)
        )
        return Done(
            unit=self._unit,
            scenarios=self._scenarios,
            plays=int(plays),
            states=sorted(self._states),
            behaviours=dict(sorted(self._behaviours.items())),
            pairs=sorted(self._pairs),
            known=dict(sorted(self._known.items())),
            behind=dict(sorted(self._behind.items())),
            finds=list(self._finds.values()),
            steps=self._steps,
            spent=Spent(
                making=making,
                oracle=oracle,
                subject=subject,
                playing=waited,
                judging=max(0.0, self._taking - waited),
            ),
        )


def _whose_disagreement(first: Examined, second: Examined) -> str:
    """Which side did otherwise the second time; the oracle where both did."""
    return "flaky:oracle" if first.oracle != second.oracle else "flaky:subject"

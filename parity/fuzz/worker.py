"""Whoever does units: the two sides of one level, started once and kept, in this process or in one of several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from oracle.pins import Pin
from oracle.verify import Measured
from parity.ask import Ask
from parity.fuzz.document import case_from
from parity.fuzz.examine import finding_of
from parity.fuzz.fresh_sides import FreshSides
from parity.fuzz.known import Known, known_from
from parity.fuzz.samples import samples
from parity.fuzz.showing import Showing, why_kept_whole
from parity.fuzz.shrink import shrink
from parity.fuzz.unit import Done, Find, Reduced, Unit
from parity.fuzz.units import Bench, do
from parity.records.parse import load_records
from parity.report.progress import RunProgress
from parity.scenario import Level
from parity.sides import Sides


class Post(msgspec.Struct, frozen=True):
    """All that a worker needs to know before its first unit. `measured` is what the pin was found to be."""

    root: Path
    pin: Pin
    measured: Measured
    level: Level
    policies: dict[str, str]


class Worker:
    """Does units of one level, one at a time. `close` ends every process that it started.

    Raises OracleError, UsageError and InconclusiveError for sides that cannot be had.
    """

    def __init__(self, post: Post, progress: RunProgress) -> None:
        self._post = post
        ask = Ask(root=post.root, policies=post.policies)
        cases = [case_from(document) for document in samples(post.level)]
        choices: list[dict[str, str]] = [post.policies, {}] if post.policies else [{}]
        self._sides = FreshSides(
            lambda: Sides(ask, post.pin, post.measured, progress),
            [(case, policies) for policies in choices for case in cases],
        )
        self._examiners = [self._sides.examiner(policies) for policies in choices]
        records = load_records(post.root)
        self._known: Sequence[Known] = [known_from(records, policies) for policies in choices]

    def do(self, unit: Unit) -> Done:
        """All of a unit's scenarios, played and judged."""
        pinned = (self._examiners[-1], self._known[-1]) if self._post.policies else None
        return do(unit, Bench(self._examiners[0], self._known[0], pinned))

    def shrink(self, find: Find, attempts: int, seconds: float | None) -> Reduced:
        """The find with the smallest scenario that still shows it; one that cannot be shrunk, or no longer shows, comes back as it was."""
        lasting = why_kept_whole(find.fingerprint, find.document)
        if lasting is not None:
            return Reduced(find, 0, lasting)
        examiner = self._sides.examiner(find.policies)
        first = examiner.look(find.document)
        if not first.shows(find.fingerprint):
            return Reduced(find, 1, first.judged.failure or "it does not show again")
        showing = Showing(find.fingerprint, first, examiner.play)
        shrunk = shrink(find.document, showing.keeps, attempts=attempts, seconds=seconds)
        seen = finding_of(showing.judged(shrunk.document), find.fingerprint)
        found = msgspec.structs.replace(find, document=shrunk.document)
        if seen is not None:
            found = msgspec.structs.replace(found, at=seen.at, oracle=seen.oracle, subject=seen.subject)
        return Reduced(found, shrunk.attempts, shrunk.stopped)

    def close(self) -> None:
        self._sides.close()

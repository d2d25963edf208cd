"""Undecided records become less as their subject is mended: the scenarios in which nothing shows any more are taken out.

Only what nobody decided is touched: a decided record that is STALE is for whoever decided it.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

import msgspec

from parity.finding import Verdict
from parity.records.again import decided_again
from parity.records.draft import Measured
from parity.records.record import MAX_EXEMPLARS, Exemplar, Front, Record, fingerprint_of
from parity.runlog import RunFile


class Pruned(msgspec.Struct, frozen=True):
    """A record with what its front matter is now, and the scenarios that were taken out."""

    record: Record
    front: Front
    gone: tuple[str, ...]

    @property
    def is_retired(self) -> bool:
        return self.front.state == "retired"


def prune(run: RunFile, records: Sequence[Record], today: datetime.date) -> Iterator[Pruned]:
    """The undecided records that are STALE somewhere in a run, as the records decide it now.

    One that no scenario is left of is retired, with what it named, so that it goes on telling what there was.
    """
    results = decided_again(run.scenarios, records, today, run.header.subject.profile)
    for record in records:
        gone = {
            (name, item.finding.fingerprint)
            for name, result in results.items()
            for item in result.decided
            if item.verdict is Verdict.STALE and item.record == record.id
        }
        if not gone or not record.is_undecided:
            continue
        front = record.front
        kept = [
            entry for entry in front.exemplars if (entry.scenario, fingerprint_of(front, entry)) not in gone
        ]
        kept = kept or list(_shown_elsewhere(front, run))[:MAX_EXEMPLARS]
        changes = {"exemplars": kept} if kept else _retired(today)
        left = msgspec.structs.replace(front, **changes)
        yield Pruned(record, left, tuple(sorted({name for name, _ in gone})))


def _retired(today: datetime.date) -> dict[str, str]:
    return {"state": "retired", "reason": f"no scenario showed it any more on {today}"}


def _shown_elsewhere(front: Front, run: RunFile) -> Iterator[Exemplar]:
    """Other exemplars of a mirrored finding, which is covered in more scenarios than its record names."""
    for line in run.scenarios:
        for item in line.findings:
            finding = item.finding
            is_shown = finding.shape and finding.attribution == "mirrored"
            if is_shown and finding.fingerprint in front.fingerprints:
                yield Measured(run.header, line, finding).exemplar()

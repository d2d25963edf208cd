"""What a person would accept as a record of a planted fault: every finding of the suite that it shows, and nothing else.

In memory only. As records do, differences are covered in their scenarios by both digests, mirrored findings by their
fingerprint everywhere, with up to three exemplars.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence

import msgspec

from parity.finding import Finding
from parity.records.record import (
    MAX_INLINE,
    Exemplar,
    Front,
    OracleRef,
    Record,
    Stamp,
    fingerprint_of,
)

ID = "planted/fault"
_DAY = datetime.date(2000, 1, 1)


class Shown(msgspec.Struct, frozen=True):
    """One finding of one scenario, as it is recorded."""

    scenario: str
    scenario_hash: str
    finding: Finding


def records_of(shown: Sequence[Shown], known: Iterable[str] = ()) -> list[Record]:
    """One accepted record for each attribution; fingerprints in `known` are covered by other records already."""
    skip = set(known)
    by_whose: dict[str, list[Shown]] = {}
    for item in shown:
        if item.finding.fingerprint not in skip:
            by_whose.setdefault(item.finding.attribution, []).append(item)
    return [_record(whose, items) for whose, items in sorted(by_whose.items())]


def refreshed(records: Iterable[Record], shown: Sequence[Shown]) -> list[Record]:
    """The records as they stand once people have refreshed them: without the mirrored exemplars that no longer show so."""
    seen = [_exemplar(item) for item in shown if item.finding.attribution == "mirrored"]
    now = {(entry.scenario, entry.fingerprint, entry.at, _text(entry)) for entry in seen}
    return [_refresh(record, now) for record in records]


def _refresh(record: Record, now: set[tuple[str, str | None, str, bytes]]) -> Record:
    front = record.front
    if front.attribution != "mirrored":
        return record
    left = [
        entry
        for entry in front.exemplars
        if (entry.scenario, fingerprint_of(front, entry), entry.at, _text(entry)) in now
    ]
    return msgspec.structs.replace(record, front=msgspec.structs.replace(front, exemplars=left))


def _text(entry: Exemplar) -> bytes:
    return msgspec.json.encode([entry.oracle, entry.subject], order="sorted")


def _record(whose: str, items: Sequence[Shown]) -> Record:
    prints = list(dict.fromkeys(item.finding.fingerprint for item in items))
    exemplars = [_exemplar(item) for item in items]
    if whose == "mirrored":
        exemplars = exemplars[:MAX_INLINE]
    stamp = Stamp(on=_DAY, by="@masking")
    front = Front(
        title="A planted fault",
        state="accepted",
        scope={},
        oracle=OracleRef(pin="planted"),
        anchors=[],
        references=[],
        owner="@masking",
        proposed=stamp,
        decided=stamp,
        expires=None,
        on_bump="",
        decision="diverge",
        fingerprints=prints,
        attribution=whose,  # type: ignore[arg-type]
        exemplars=exemplars,
    )
    return Record(id=f"{ID}-{whose}", path="", front=front)


def _exemplar(item: Shown) -> Exemplar:
    finding = item.finding
    return Exemplar(
        scenario=item.scenario,
        scenario_hash=item.scenario_hash,
        at=finding.at,
        oracle=finding.oracle,
        subject=finding.subject,
        property=finding.property,
        fingerprint=finding.fingerprint,
        oracle_digest=finding.oracle_digest,
        subject_digest=finding.subject_digest,
    )

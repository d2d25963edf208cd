"""What a hunt need not tell again: the findings whose shape an accepted record has.

Only a hunt matches a difference by its shape alone, as its scenarios are in no record. A shape is a coarse thing, so
`behind` looks at what a known difference may hide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from parity.finding import Finding
from parity.records.match import PINNED_CHOICE
from parity.records.record import Record


class Known(msgspec.Struct, frozen=True):
    """Which record has which fingerprint. `mirrored` and `differences` are kept apart, as their shapes are."""

    mirrored: dict[str, str] = {}
    differences: dict[str, str] = {}

    def record_of(self, finding: Finding) -> str | None:
        """The id of the accepted record that has this finding's shape; null for a new one, and always for `harness`."""
        if finding.attribution == "harness":
            return None
        table = self.mirrored if finding.attribution == "mirrored" else self.differences
        return table.get(finding.fingerprint)


def known_from(records: Iterable[Record], policies: Mapping[str, str]) -> Known:
    """What accepted records decide of a hunt under these choices of the engine.

    A difference that a record has under its policy is known only where that is the policy of the hunt, and one that it
    has at the pin's choices only there.
    """
    chosen = {name: value for name, value in policies.items() if value != PINNED_CHOICE}
    mirrored: dict[str, str] = {}
    differences: dict[str, str] = {}
    for record in records:
        if not record.covers:
            continue
        if record.front.attribution == "mirrored":
            _add(mirrored, record, record.front.fingerprints)
        elif not chosen:
            _add(differences, record, record.front.fingerprints)
        if chosen and record.policy is not None and dict([record.policy]) == chosen:
            _add(differences, record, [entry.fingerprint for entry in record.front.diverging])
    return Known(mirrored, differences)


def _add(table: dict[str, str], record: Record, fingerprints: Sequence[str]) -> None:
    for fingerprint in fingerprints:
        table.setdefault(fingerprint, record.id)

"""Which records speak of a finding: the lookups that verdicts rest on, over plain values.

A claim is one thing that an accepted record says will be seen: a fingerprint in a scenario, with the
digests of both whole observations where it is a difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from parity.finding import Finding
from parity.records.record import EXACT, Diverging, Exemplar, Record, Recorded, fingerprint_of, in_words
from parity.scenario import Json

PINNED_CHOICE = "pin"  # the value that every policy has by default: do as the mirrored version does


class Claim(msgspec.Struct, frozen=True):
    """What one entry of an accepted record says of one scenario.

    `required` claims must show whenever their scenario is played. The outcomes, by digest, are those that were
    ever seen of a side that is not deterministic; empty for one that is.
    """

    record: Record
    required: bool
    scenario: str
    scenario_hash: str | None
    fingerprint: str
    attribution: str
    broken: str | None
    at: str
    oracle: Json
    subject: Json
    oracle_digest: str | None
    subject_digest: str | None
    oracle_outcomes: Mapping[str, Recorded] = {}
    subject_outcomes: Mapping[str, Recorded] = {}

    @property
    def is_difference(self) -> bool:
        return self.attribution != "mirrored"

    @property
    def has_outcomes(self) -> bool:
        return bool(self.oracle_outcomes or self.subject_outcomes)

    def moved(self, finding: Finding) -> tuple[str, ...]:
        """The sides whose whole observation, or one of whose outcomes, is no recorded one.

        An outcome of the oracle's that is recorded of the subject is no surprise: in that play they agreed.
        """
        sides = (
            (
                "oracle",
                self.oracle_digest,
                finding.oracle_digest,
                self.oracle_outcomes and {**self.oracle_outcomes, **self.subject_outcomes},
                finding.oracle_outcomes,
            ),
            (
                "subject",
                self.subject_digest,
                finding.subject_digest,
                self.subject_outcomes,
                finding.subject_outcomes,
            ),
        )
        return tuple(
            side
            for side, recorded, seen, outcomes, counts in sides
            if (not set(counts or [seen]) <= set(outcomes) if outcomes else recorded != seen)
        )

    @property
    def rate(self) -> str | None:
        """How often the claimed property was broken when it was recorded: `8 of 20`; null where no outcome says so."""
        outcomes = self.subject_outcomes if self.attribution == "ours" else self.oracle_outcomes
        names = set((self.broken or "").split(","))
        breaking = [outcome.counts for outcome in outcomes.values() if names & set(outcome.breaks)]
        return f"{sum(seen for seen, _ in breaking)} of {breaking[0][1]}" if breaking else None

    def recorded(self) -> Finding:
        """The finding as the record holds it, for when it no longer shows."""
        return Finding(
            fingerprint=self.fingerprint,
            attribution=self.attribution,  # type: ignore[arg-type]
            property=self.broken,
            at=self.at,
            oracle=self.oracle,
            subject=self.subject,
            oracle_digest=self.oracle_digest or "",
            subject_digest=self.subject_digest or "",
        )


class Book:
    """The records of a run, indexed for the policies that the run is made under.

    Under a policy the exemplars are not required to show, because they tell what happens at the pin's
    own choice; in their place the `diverging` entries of the records with exactly this policy are.
    A record of another `profile` than the run's is none of them: `passed_over` counts those.
    """

    def __init__(self, records: Sequence[Record], policies: Mapping[str, str], profile: str = EXACT) -> None:
        self.records = tuple(record for record in records if record.front.profile == profile)
        self.passed_over = len(records) - len(self.records)
        chosen = {name: value for name, value in policies.items() if value != PINNED_CHOICE}
        self._claims: dict[str, list[Claim]] = {}
        for record in self.records:
            if not record.covers:
                continue
            for claim in _claims(record, chosen):
                self._claims.setdefault(claim.scenario, []).append(claim)

    def claims(self, scenario: str) -> Sequence[Claim]:
        """What accepted records say of this scenario, in the records' order."""
        return self._claims.get(scenario, ())

    def mirrored(self, fingerprint: str) -> tuple[Record, ...]:
        """The accepted records that cover this mirrored fingerprint, in every scenario."""
        return tuple(
            record
            for record in self.records
            if record.covers
            and record.front.attribution == "mirrored"
            and fingerprint in record.front.fingerprints
        )

    def differences(self, scenario: str, fingerprint: str) -> tuple[Claim, ...]:
        return tuple(
            claim
            for claim in self.claims(scenario)
            if claim.is_difference and claim.fingerprint == fingerprint
        )

    def known_outcomes(self, scenario: str) -> frozenset[str]:
        """The digests of the oracle's outcomes that accepted records list for this scenario, under any policy."""
        return frozenset(
            key
            for record in self.records
            if record.covers
            for entry in record.front.exemplars
            if entry.scenario == scenario
            for key in entry.oracle_outcomes
        )

    def knowing(self, fingerprint: str) -> tuple[Record, ...]:
        """Every record of whatever state that has this shape, covering or not."""
        return tuple(record for record in self.records if fingerprint in _fingerprints(record))


def entry_claim(record: Record, entry: Diverging, *, required: bool) -> Claim:
    """What a `diverging` entry says of its scenario under its record's policy."""
    return Claim(
        record=record,
        required=required,
        scenario=entry.scenario,
        scenario_hash=entry.scenario_hash,
        fingerprint=entry.fingerprint,
        attribution=entry.attribution,
        broken=entry.property,
        at=entry.at,
        oracle=entry.oracle,
        subject=entry.subject,
        oracle_digest=entry.oracle_digest,
        subject_digest=entry.subject_digest,
    )


def _claims(record: Record, policies: Mapping[str, str]) -> list[Claim]:
    front = record.front
    default = not policies
    claims = [_exemplar_claim(record, entry, required=default) for entry in front.exemplars]
    if not default:
        claims = [claim for claim in claims if not (claim.is_difference and front.policy is not None)]
        if record.policy is not None and dict([record.policy]) == dict(policies):
            claims += [entry_claim(record, entry, required=True) for entry in front.diverging]
    return claims


def _exemplar_claim(record: Record, entry: Exemplar, *, required: bool) -> Claim:
    front = record.front
    return Claim(
        record=record,
        required=required,
        scenario=entry.scenario,
        scenario_hash=entry.scenario_hash,
        fingerprint=fingerprint_of(front, entry),
        attribution=front.attribution or "differs",
        broken=entry.property,
        at=entry.at,
        oracle=entry.oracle,
        subject=entry.subject,
        oracle_digest=entry.oracle_digest,
        subject_digest=entry.subject_digest,
        oracle_outcomes=in_words(entry.oracle_outcomes),
        subject_outcomes=in_words(entry.subject_outcomes),
    )


def _fingerprints(record: Record) -> set[str]:
    return {*record.front.fingerprints, *(entry.fingerprint for entry in record.front.diverging)}

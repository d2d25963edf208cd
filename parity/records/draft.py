"""A new record from what a run found: everything that can be measured is filled in, the prose is left to a person."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from parity.errors import UsageError
from parity.finding import Decided, Finding, Seen, Verdict
from parity.numerics import holds_logprobs
from parity.records.anchors import USUAL, folder_of, source_digest
from parity.records.record import (
    EXACT,
    Anchor,
    Diverging,
    Exemplar,
    Front,
    OracleRef,
    Recorded,
    Stamp,
    in_words,
)
from parity.records.rules import PLACEHOLDER
from parity.runlog import Header, ScenarioLine

UNDECIDED_DAYS = 90  # how long a draft may stay undecided before it expires


class Measured(msgspec.Struct, frozen=True):
    """One finding of one scenario of a run, with the run's header: what a record can be written from."""

    header: Header
    line: ScenarioLine
    finding: Finding

    @property
    def policy(self) -> str | None:
        """NAME=VALUE where the run was made under a policy. Raises UsageError where it was under several."""
        chosen = [f"{name}={value}" for name, value in self.header.policies.items() if value != "pin"]
        if len(chosen) > 1:
            raise UsageError(f"the run was made under {' and '.join(chosen)}; a record has one policy")
        return chosen[0] if chosen else None

    @property
    def stamp(self) -> str:
        """What tells this run's plays of the scenario from any other's: what was seen, and the seconds that it took."""
        sides = msgspec.json.encode((self.line.oracle, self.line.subject), order="sorted")
        return hashlib.sha256(sides).hexdigest()[:16]

    def exemplar(self, before: Exemplar | None = None) -> Exemplar:
        """What was measured; the rates of an entry `before` of the same scenario are carried on.

        Raises UsageError where those rates have this run's plays already, or hold what no digest tells.
        """
        finding = self.finding
        known = None if before is None or before.scenario_hash != self.line.scenario_hash else before
        runs = self._runs(known) if finding.oracle_outcomes or finding.subject_outcomes else []
        is_difference = finding.attribution != "mirrored"
        return Exemplar(
            scenario=self.line.id,
            scenario_hash=self.line.scenario_hash,
            at=finding.at,
            oracle=finding.oracle,
            subject=finding.subject,
            property=finding.property,
            fingerprint=finding.fingerprint,
            oracle_digest=finding.oracle_digest if is_difference else None,
            subject_digest=finding.subject_digest if is_difference else None,
            oracle_outcomes=_rates(finding.oracle_outcomes, in_words(known.oracle_outcomes) if known else {}),
            subject_outcomes=_rates(
                finding.subject_outcomes, in_words(known.subject_outcomes) if known else {}
            ),
            runs=runs,
        )

    def _runs(self, known: Exemplar | None) -> list[str]:
        """The stamps of the runs in the rates, this one's added."""
        before = known.runs if known else []
        if self.stamp in before:
            raise UsageError(
                f"{self.line.id}: the plays of this run are in the rates already",
                hint="play it again, and take up that run",
            )
        observations = [*self.line.oracle.observations, *self.line.subject.observations]
        if any(holds_logprobs(observation) for observation in observations):
            raise UsageError(
                f"{self.line.id} has outcomes, and answers with log probabilities, which no record of outcomes holds",
                hint="ask for them in a scenario without `outcomes`",
            )
        return [*before, self.stamp]

    def diverging(self) -> Diverging:
        """What was measured under the policy. Raises UsageError for a scenario with outcomes, whose every play may differ."""
        finding = self.finding
        if finding.oracle_outcomes or finding.subject_outcomes:
            raise UsageError(
                f"{self.line.id} has outcomes; what a policy yields is recorded of one outcome, and replayed",
                hint="take it from a scenario without `outcomes`",
            )
        return Diverging(
            scenario=self.line.id,
            scenario_hash=self.line.scenario_hash,
            at=finding.at,
            oracle=finding.oracle,
            subject=finding.subject,
            property=finding.property,
            attribution=finding.attribution,  # type: ignore[arg-type]
            fingerprint=finding.fingerprint,
            oracle_digest=finding.oracle_digest,
            subject_digest=finding.subject_digest,
        )


def choose(header: Header, line: ScenarioLine, number: int | None) -> Measured:
    """The finding that a record is to be about: the `number`-th, from 1, or the only one that is open.

    Raises UsageError where there is none, or more than one to choose from.
    """
    found = [item for item in line.findings if item.verdict is not Verdict.STALE]
    if not found:
        why = line.detail or "both sides agree and keep their promises"
        raise UsageError(f"{line.id} is {line.verdict.value} and has no finding to record: {why}")
    if number is not None:
        if not 1 <= number <= len(found):
            raise UsageError(f"{line.id} has {len(found)} findings, not {number}", hint=_list(found))
        return _measured(header, line, found[number - 1])
    open_ = [item for item in found if item.verdict is not Verdict.COVERED] or found
    if len(open_) > 1:
        raise UsageError(f"{line.id} has several findings: say which with --finding N", hint=_list(found))
    return _measured(header, line, open_[0])


def draft(measured: Measured, *, by: str, today: datetime.date, anchors: list[Anchor]) -> Front:
    """The front matter of a new record, proposed and undecided, that cites these places."""
    finding = measured.finding
    policy = measured.policy
    if policy is not None and finding.attribution == "mirrored":
        raise UsageError(
            f"{measured.line.id}: a mirrored finding is no consequence of {policy}",
            hint="take it from a run without --policy",
        )
    is_default = policy is None
    assert measured.header.pin is not None, "a record speaks of upstream at a pin"
    return Front(
        title=title_of(finding),
        state="proposed",
        decision="undecided",
        fingerprints=[finding.fingerprint],
        attribution=finding.attribution,  # type: ignore[arg-type]
        exemplars=[measured.exemplar()] if is_default else [],
        policy=policy,
        diverging=[] if is_default else [measured.diverging()],
        scope=scope_of(measured.header),
        oracle=OracleRef(pin=measured.header.pin.name),
        anchors=anchors,
        references=[],
        owner=by,
        proposed=Stamp(on=today, by=by),
        decided=None,
        expires=today + datetime.timedelta(days=UNDECIDED_DAYS),
        on_bump=f"{PLACEHOLDER}: what a new pin means for this record",
    )


def scope_of(header: Header) -> dict[str, str]:
    """What a record that was measured in this run holds for; the profile where it is not exact."""
    scope = {"scheduler": "sync", "kv_groups": "one full attention", "model_runner": header.model_runner}
    return scope if header.subject.profile == EXACT else {**scope, "profile": header.subject.profile}


def usual_anchors(measured: Measured, root: Path, upstream: Path | None) -> list[Anchor]:
    """The places that a finding of this level usually speaks of: upstream's, and the engine's where it is about that.

    The digest is null where the source is not at hand.
    """
    anchors = []
    for at in USUAL[measured.line.level]:
        anchor = Anchor(at=at, digest=None)
        if not (anchor.is_upstreams or measured.header.is_of_engine):
            continue
        folder = folder_of(anchor, root, upstream)
        if folder is None:
            anchors.append(anchor)
            continue
        try:
            anchors.append(Anchor(at=at, digest=source_digest(folder, anchor)))
        except LookupError:
            continue  # a place that this source does not have is no place to cite
    return anchors


def _measured(header: Header, line: ScenarioLine, item: Decided) -> Measured:
    if item.finding.attribution == "harness":
        raise UsageError(f"{line.id}: the comparison itself is at fault; no record can cover that")
    return Measured(header, line, item.finding)


def _rates(seen: Mapping[str, Seen], before: Mapping[str, Recorded]) -> dict[str, Recorded | tuple[int, int]]:
    """Each outcome with its rate over the plays of this run and those recorded before, in the order of recording."""
    counts = {key: outcome.counts[0] for key, outcome in before.items()}
    for key, outcome in seen.items():
        counts[key] = counts.get(key, 0) + outcome.count
    plays = sum(counts.values())
    told = {key: Recorded("", outcome.summary, list(outcome.breaks)) for key, outcome in seen.items()}
    words = {**before, **told}
    return {
        key: msgspec.structs.replace(words[key], rate=f"{count} of {plays}") for key, count in counts.items()
    }


def title_of(finding: Finding) -> str:
    """What a finding is, in one line."""
    if finding.property is None:
        return f"The subject differs from upstream at {finding.at}"
    who = {"mirrored": "Both sides break", "ours": "The subject breaks", "theirs": "Upstream breaks"}
    return f"{who.get(finding.attribution, 'A side breaks')} {finding.property.replace(',', ' and ')}"


def _list(found: list[Decided]) -> str:
    return "; ".join(
        f"{number}: {item.finding.attribution} at {item.finding.at} ({item.verdict.value})"
        for number, item in enumerate(found, start=1)
    )

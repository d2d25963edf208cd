"""From two sides' plays of one scenario to its findings: compared to the first difference, each attributed.

The rules, each side's properties having been judged alone:

- a property broken on both sides: one finding, `mirrored`, a property;
- a difference, and no property broken on one side only: `ours` if the subject claims to mirror, else `differs`;
- a difference, and properties that only one side breaks: one finding for each side that breaks some,
  `ours` (the subject) or `theirs` (the oracle), at the first difference;
- without a difference a one-sided break can only come from an outcome set: `theirs`, where it breaks;
- digests that differ while the walk finds nothing: `harness`, a fault of the comparison.

No record is read here; `verdicts` does that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from parity.diff import first_difference
from parity.finding import Attribution, Broken, Difference, Finding, Judged, Plays, Side
from parity.fingerprint import Shape, broken_shape, difference_shape
from parity.observation import Observation, digest, plain
from parity.properties import CHECKS, broken_properties
from parity.scenario import Case


class Outcomes(msgspec.Struct, frozen=True):
    """One side's distinct observations by digest, their counts, and the properties that any of them breaks."""

    side: Side
    observations: dict[str, Observation]
    counts: dict[str, int]
    broken: dict[str, Broken]

    @property
    def digest(self) -> str:
        """The observation's digest where there is one; of the set of digests where there are several."""
        if len(self.counts) == 1:
            return next(iter(self.counts))
        return "sha256:" + hashlib.sha256("\n".join(sorted(self.counts)).encode()).hexdigest()


class Compared(msgspec.Struct, frozen=True):
    """A difference together with the two observations that it was found between."""

    difference: Difference
    oracle: Observation
    subject: Observation


def judge(case: Case, oracle: Plays, subject: Plays, *, mirrors: bool = True) -> Judged:
    """The findings of one scenario.

    `mirrors` says whether the subject claims to do as upstream does; under a policy other than the pin's
    it does not. A side's failure and a side's disagreement with itself are told in place of findings.
    """
    base = Judged(id=case.id, level=case.scenario.level, scenario_hash=case.hash)
    sides: tuple[tuple[Side, Plays], ...] = (("oracle", oracle), ("subject", subject))
    failure = next((text for side, plays in sides if (text := _failure(side, plays))), None)
    if failure is not None:
        return msgspec.structs.replace(base, failure=failure)
    if case.outcomes is None:
        flaky = next((text for side, plays in sides if (text := _disagreement(side, plays))), None)
        if flaky is not None:
            return msgspec.structs.replace(base, flaky=flaky)
    left, right = (_outcomes(case, side, plays) for side, plays in sides)
    return msgspec.structs.replace(
        base,
        findings=_findings(case, left, right, mirrors=mirrors),
        oracle_digest=left.digest,
        subject_digest=right.digest,
    )


def _failure(side: Side, plays: Plays) -> str | None:
    if plays.failure is not None:
        return f"the {side} failed: {plays.failure}"
    return None if plays.observations else f"the {side} was not played"


def _disagreement(side: Side, plays: Plays) -> str | None:
    first = plays.observations[0]
    for number, other in enumerate(plays.observations[1:], start=2):
        if other == first:
            continue
        found = first_difference(plain(first), plain(other))
        where = "somewhere" if found is None else f"at {found.path}: {found.oracle} and {found.subject}"
        return f"the {side} disagrees with itself between plays 1 and {number}, {where}"
    return None


def _outcomes(case: Case, side: Side, plays: Plays) -> Outcomes:
    observations: dict[str, Observation] = {}
    counts: dict[str, int] = {}
    for observation in plays.observations:
        key = digest(observation)
        observations.setdefault(key, observation)
        counts[key] = counts.get(key, 0) + 1
    scenario = case.scenario
    waived = {waiver.property for waiver in case.waive}
    broken: dict[str, Broken] = {}
    for key in sorted(observations):
        for item in broken_properties(
            scenario.level, scenario.config, observations[key], scenario.timeline, waived=waived
        ):
            broken.setdefault(item.property, item)
    return Outcomes(side=side, observations=observations, counts=counts, broken=broken)


def _findings(case: Case, oracle: Outcomes, subject: Outcomes, *, mirrors: bool) -> tuple[Finding, ...]:
    order = tuple(CHECKS[case.scenario.level])
    shared = [name for name in order if name in oracle.broken and name in subject.broken]
    alone: dict[Side, list[str]] = {
        side.side: [name for name in order if name in side.broken and name not in shared]
        for side in (oracle, subject)
    }
    found = [_mirrored(case, name, oracle, subject) for name in shared]
    compared = _compare(oracle, subject)
    if compared is None:
        found += [_one_sided(case, name, oracle, subject) for name in alone["oracle"]]
    elif compared.difference.path == "":
        found.append(_difference(case, "harness", (), compared, oracle, subject))
    else:
        attributions = _attributions(alone, mirrors=mirrors)
        found += [
            _difference(case, attribution, names, compared, oracle, subject)
            for attribution, names in attributions.items()
        ]
    return tuple(found)


def _attributions(
    alone: Mapping[Side, Sequence[str]], *, mirrors: bool
) -> dict[Attribution, tuple[str, ...]]:
    """Whose a difference is, with the properties that say so."""
    told: dict[Attribution, tuple[str, ...]] = {}
    if alone["subject"]:
        told["ours"] = tuple(alone["subject"])
    if alone["oracle"]:
        told["theirs"] = tuple(alone["oracle"])
    if not told:
        told["ours" if mirrors else "differs"] = ()
    return told


def _compare(oracle: Outcomes, subject: Outcomes) -> Compared | None:
    """The difference of the first subject outcome that the oracle does not have, to the oracle's most frequent one.

    Null where the subject's outcome set lies within the oracle's. A path of "" means that the digests
    differ and the walk found nothing.
    """
    stray = next((key for key in subject.observations if key not in oracle.observations), None)
    if stray is None:
        return None
    usual = min(oracle.counts, key=lambda key: (-oracle.counts[key], key))
    left, right = oracle.observations[usual], subject.observations[stray]
    difference = first_difference(plain(left), plain(right))
    return Compared(difference or Difference("", usual, stray, "differs"), left, right)


def _difference(
    case: Case,
    attribution: Attribution,
    names: Sequence[str],
    compared: Compared,
    oracle: Outcomes,
    subject: Outcomes,
) -> Finding:
    difference = compared.difference
    shape = difference_shape(
        case.scenario.level, attribution, names, difference, compared.oracle, compared.subject
    )
    return _finding(
        case,
        shape,
        at=difference.path,
        values=(difference.oracle, difference.subject),
        sides=(oracle, subject),
    )


def _mirrored(case: Case, name: str, oracle: Outcomes, subject: Outcomes) -> Finding:
    left, right = oracle.broken[name], subject.broken[name]
    shape = broken_shape(case.scenario.level, "mirrored", left, right)
    return _finding(case, shape, at=left.at, values=(left.value, right.value), sides=(oracle, subject))


def _one_sided(case: Case, name: str, oracle: Outcomes, subject: Outcomes) -> Finding:
    broken = oracle.broken[name]
    shape = broken_shape(case.scenario.level, "theirs", broken, broken)
    return _finding(case, shape, at=broken.at, values=(broken.value, None), sides=(oracle, subject))


def _finding(
    case: Case, shape: Shape, *, at: str, values: tuple[object, object], sides: tuple[Outcomes, Outcomes]
) -> Finding:
    oracle, subject = sides
    is_set = case.outcomes is not None
    return Finding(
        fingerprint=shape.fingerprint,
        attribution=msgspec.convert(shape.attribution, Attribution),
        property=None if shape.broken == "-" else shape.broken,
        at=at,
        oracle=values[0],
        subject=values[1],
        oracle_digest=oracle.digest,
        subject_digest=subject.digest,
        shape=shape.line,
        oracle_outcomes=dict(oracle.counts) if is_set else {},
        subject_outcomes=dict(subject.counts) if is_set else {},
    )

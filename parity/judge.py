"""From two sides' plays of one scenario to its findings: compared to the first difference, each attributed.

The rules, each side's properties having been judged alone:

- a property broken on both sides: one finding, `mirrored`, a property; at level serve, where one script may break it
  in several ways, one for each shape that both sides have, and a shape that only one has is that side's;
- a difference, and no property broken on one side only: `ours` if the subject claims to mirror, else `differs`;
- a difference, and properties that only one side breaks: one finding for each side that breaks some,
  `ours` (the subject) or `theirs` (the oracle), at the first difference;
- log probabilities that differ behind that difference, or without one: one finding of each exchange and shape, `ours`
  if the subject claims to mirror, else `differs`. No digest holds them, so nothing else would tell;
- digests that differ while the walk finds nothing: `harness`, a fault of the comparison.

In an outcome set not every outcome shows in every run, and a finding must not depend on which did:

- a property is judged by each shape in which an outcome breaks it: `mirrored` where both sides have it, `theirs` where
  only the oracle has, at the place where it breaks, whatever else the subject did;
- a subject's outcome that the oracle neither showed nor has on record: a difference, as above;
- a shape that only the subject has, all its outcomes being the oracle's, seen or on record: `mirrored`.

An outcome on record excuses the subject only where it holds no log probabilities: the record's digest does not say
whether they are the oracle's, and without the oracle's own there is nothing to hold them against.

No record is read here; `verdicts` does that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from parity.diff import first_difference, logprob_differences, split
from parity.finding import Attribution, Broken, Difference, Finding, Judged, Plays, Side
from parity.fingerprint import OUTCOMES, Shape, broken_shape, difference_shape, stray_shape
from parity.levels import PROPERTIES
from parity.numerics import holds_logprobs
from parity.observation import Observation, Serve, digest, plain
from parity.outcomes import Outcomes, difference_of, outcomes
from parity.scenario import Case, ServeScenario


class Compared(msgspec.Struct, frozen=True):
    """A difference together with the two observations that it was found between."""

    difference: Difference
    oracle: Observation
    subject: Observation


class Comparison(msgspec.Struct, frozen=True):
    """What the subject's outcomes have that the oracle's have not.

    `stray` is the first outcome that is none of the oracle's, with its first difference; `logprobs` are the log
    probabilities that differ apart from it, the first of each exchange.
    """

    stray: Compared | None
    logprobs: tuple[Compared, ...]


def judge(
    case: Case, oracle: Plays, subject: Plays, *, mirrors: bool = True, known: frozenset[str] = frozenset()
) -> Judged:
    """The findings of one scenario.

    `mirrors` says whether the subject claims to do as upstream does; under a policy other than the pin's
    it does not. `known` are the digests of the oracle's outcomes that accepted records list for this scenario; it
    matters only where the scenario says `outcomes`. A side's failure and a side's disagreement with itself are told
    in place of findings.
    """
    base = Judged(id=case.id, level=case.scenario.level, scenario_hash=case.hash)
    sides: tuple[tuple[Side, Plays], ...] = (("oracle", oracle), ("subject", subject))
    failure = next((text for side, plays in sides if (text := _failure(side, plays))), None)
    if failure is not None:
        return msgspec.structs.replace(base, failure=failure)
    is_set = case.outcomes is not None
    if not is_set:
        flaky = next((text for side, plays in sides if (text := _disagreement(side, plays))), None)
        if flaky is not None:
            return msgspec.structs.replace(base, flaky=flaky)
    left = outcomes(case, "oracle", oracle, {})
    usual = sorted(left.seen, key=lambda key: (-left.seen[key].count, key))
    right = outcomes(case, "subject", subject, {key: left.observations[key] for key in usual})
    found = _compare(left, right, known if is_set else frozenset(), is_set=is_set)
    find = _findings_of_sets if is_set else _findings
    return msgspec.structs.replace(
        base,
        findings=find(case, left, right, found, mirrors=mirrors),
        oracle_digest=left.digest,
        subject_digest=right.digest,
        oracle_outcomes=dict(left.seen) if is_set else {},
        subject_outcomes=dict(right.seen) if is_set else {},
        ties=right.ties,
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
        found = difference_of(first, other)
        if found is None and isinstance(first, Serve):
            continue
        where = "somewhere" if found is None else f"at {found.path}: {found.oracle} and {found.subject}"
        return f"the {side} disagrees with itself between plays 1 and {number}, {where}"
    return None


def _findings(
    case: Case, oracle: Outcomes, subject: Outcomes, found: Comparison, *, mirrors: bool
) -> tuple[Finding, ...]:
    shared, alone = _split(case, oracle, subject)
    findings = [_mirrored(case, pair, oracle, subject) for pair in shared]
    if found.stray is not None:
        findings += _differences(case, alone, found.stray, oracle, subject, mirrors=mirrors)
    return (*findings, *_logprobs(case, found, findings, oracle, subject, mirrors=mirrors))


def _findings_of_sets(
    case: Case, oracle: Outcomes, subject: Outcomes, found: Comparison, *, mirrors: bool
) -> tuple[Finding, ...]:
    """The same for outcome sets, where what only the oracle's outcomes break is told wherever the subject's are."""
    findings: list[Finding] = []
    ours_alone: list[str] = []
    for name in PROPERTIES[case.scenario.level]:
        left, right = oracle.broken.get(name, {}), subject.broken.get(name, {})
        for line, item in left.items():
            other = right.get(line)
            whose: Attribution = "theirs" if other is None else "mirrored"
            value = None if other is None else other.value
            findings.append(_broken(case, whose, item, (item.value, value), oracle, subject))
        strays = [item for line, item in right.items() if line not in left]
        if found.stray is None:
            findings += [
                _broken(case, "mirrored", item, (None, item.value), oracle, subject) for item in strays
            ]
        elif strays:
            ours_alone.append(name)
    if found.stray is not None and found.stray.difference.path == "":
        findings.append(_difference(case, "harness", (), found.stray, oracle, subject))
    elif found.stray is not None:
        findings.append(_stray(case, ours_alone, found.stray, oracle, subject, mirrors=mirrors))
    return (*findings, *_logprobs(case, found, findings, oracle, subject, mirrors=mirrors))


def _logprobs(
    case: Case,
    found: Comparison,
    told: Sequence[Finding],
    oracle: Outcomes,
    subject: Outcomes,
    *,
    mirrors: bool,
) -> list[Finding]:
    """Log probabilities that differ, each shape once, without those that the findings `told` say already."""
    known = {finding.fingerprint for finding in told}
    places = {finding.at for finding in told}
    findings: list[Finding] = []
    for compared in found.logprobs:
        finding = _difference(case, "ours" if mirrors else "differs", (), compared, oracle, subject)
        if finding.fingerprint not in known and finding.at not in places:
            known.add(finding.fingerprint)
            findings.append(finding)
    return findings


def _stray(
    case: Case,
    broken: Sequence[str],
    compared: Compared,
    oracle: Outcomes,
    subject: Outcomes,
    *,
    mirrors: bool,
) -> Finding:
    """An outcome of the subject's that is none of the oracle's, whatever the oracle happened to show."""
    whose: Attribution = "ours" if broken or mirrors else "differs"
    shape = stray_shape(case.scenario.level, whose, broken)
    values = (
        sorted(seen.summary for seen in oracle.seen.values()),
        subject.seen[digest(compared.subject)].summary,
    )
    return _finding(case, shape, at=OUTCOMES, values=values, sides=(oracle, subject))


def _split(
    case: Case, oracle: Outcomes, subject: Outcomes
) -> tuple[list[tuple[Broken, Broken]], dict[Side, list[str]]]:
    """The breaks that both sides have, and the properties that each breaks alone, in the level's order."""
    shared: list[tuple[Broken, Broken]] = []
    alone: dict[Side, list[str]] = {"oracle": [], "subject": []}
    for name in PROPERTIES[case.scenario.level]:
        left, right = oracle.broken.get(name, {}), subject.broken.get(name, {})
        if not isinstance(case.scenario, ServeScenario) and left and right:
            shared += zip(
                left.values(), right.values(), strict=True
            )  # a property breaks once at these levels
            continue
        shared += [(item, right[line]) for line, item in left.items() if line in right]
        if left.keys() - right.keys():
            alone["oracle"].append(name)
        if right.keys() - left.keys():
            alone["subject"].append(name)
    return shared, alone


def _differences(
    case: Case,
    alone: Mapping[Side, Sequence[str]],
    compared: Compared,
    oracle: Outcomes,
    subject: Outcomes,
    *,
    mirrors: bool,
) -> list[Finding]:
    if compared.difference.path == "":
        return [_difference(case, "harness", (), compared, oracle, subject)]
    return [
        _difference(case, attribution, names, compared, oracle, subject)
        for attribution, names in _attributions(alone, mirrors=mirrors).items()
    ]


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


def _compare(oracle: Outcomes, subject: Outcomes, known: frozenset[str], *, is_set: bool) -> Comparison:
    """The subject's outcomes against those that they should be, or against the usual one.

    A path of "" means that the digests differ and the walk found nothing. Of a set's stray outcome the log
    probabilities are not asked: which of the oracle's to hold them against is chance.
    """
    stray: Compared | None = None
    logprobs: list[Compared] = []
    for key, observation in subject.observations.items():
        is_seen = key in oracle.observations
        if not is_seen and key in known and not holds_logprobs(plain(observation)):
            continue
        reference = oracle.observations[key if is_seen else oracle.usual]
        if not is_seen and stray is None:
            difference = first_difference(plain(reference), plain(observation))
            found = difference or Difference("", oracle.usual, key, "differs")
            stray = Compared(found, reference, observation)
        if isinstance(observation, Serve) and (is_seen or not is_set):
            logprobs += _first_logprobs(reference, observation)
    return Comparison(stray, tuple(logprobs))


def _first_logprobs(oracle: Observation, subject: Observation) -> list[Compared]:
    """The first log probability of each exchange that is not the oracle's."""
    first: dict[object, Difference] = {}
    for difference in logprob_differences(plain(oracle), plain(subject)):
        first.setdefault(split(difference.path)[:2], difference)
    return [Compared(difference, oracle, subject) for difference in first.values()]


def _difference(
    case: Case,
    attribution: Attribution,
    names: Sequence[str],
    compared: Compared,
    oracle: Outcomes,
    subject: Outcomes,
) -> Finding:
    difference = compared.difference
    shape = difference_shape(case.scenario, attribution, names, difference, compared.oracle, compared.subject)
    return _finding(
        case,
        shape,
        at=difference.path,
        values=(difference.oracle, difference.subject),
        sides=(oracle, subject),
    )


def _mirrored(case: Case, pair: tuple[Broken, Broken], oracle: Outcomes, subject: Outcomes) -> Finding:
    left, right = pair
    shape = broken_shape(case.scenario.level, "mirrored", left, right)
    return _finding(case, shape, at=left.at, values=(left.value, right.value), sides=(oracle, subject))


def _broken(
    case: Case,
    attribution: Attribution,
    broken: Broken,
    values: tuple[object, object],
    oracle: Outcomes,
    subject: Outcomes,
) -> Finding:
    shape = broken_shape(case.scenario.level, attribution, broken, broken)
    return _finding(case, shape, at=broken.at, values=values, sides=(oracle, subject))


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
        oracle_outcomes=dict(oracle.seen) if is_set else {},
        subject_outcomes=dict(subject.seen) if is_set else {},
    )

"""What a run says of each finding, given the records: the whole table of docs/verdicts.md, as pure functions.

`decide_scenario` can be called as scenarios are played; `conclude` then judges the records as such and
gives the counts and the exit code; `decide` is both in one.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence

import msgspec

from parity import numerics
from parity.diff import first_difference, split
from parity.errors import ExitCode
from parity.finding import (
    Decided,
    Finding,
    Judged,
    NotCompared,
    Outcome,
    RecordVerdict,
    ScenarioResult,
    Verdict,
    worst,
)
from parity.records.match import Book, Claim, entry_claim
from parity.records.record import Diverging, Record


class Context(msgspec.Struct, frozen=True):
    """What a run knows besides its findings, as plain data.

    scenarios  the ids of all scenarios that exist, played or not
    choices    the engine's policy table: name to the values it takes
    policies   the choices that this run was made under; empty for the pin's own
    partial    whether less than the whole suite was asked for: then only records that name something
               played are judged
    today      the day against which `expires` is held
    """

    scenarios: frozenset[str]
    choices: Mapping[str, Sequence[str]]
    policies: Mapping[str, str]
    partial: bool
    today: datetime.date


class Replay(msgspec.Struct, frozen=True):
    """A record's `diverging` entry, played again under the record's policy and judged."""

    record: str
    entry: Diverging
    judged: Judged


def decide(
    judged: Sequence[Judged], records: Sequence[Record], context: Context, replays: Sequence[Replay] = ()
) -> Outcome:
    """A whole run, decided."""
    book = Book(records, context.policies)
    results = [decide_scenario(one, book, context) for one in judged]
    return conclude(results, book, context, replays)


def decide_scenario(judged: Judged, book: Book, context: Context) -> ScenarioResult:
    """One scenario's findings, each with its verdict, and the recorded ones that no longer show."""
    result = ScenarioResult(
        id=judged.id,
        level=judged.level,
        scenario_hash=judged.scenario_hash,
        verdict=Verdict.MATCH,
        decided=(),
        ties=judged.ties,
    )
    if judged.failure is not None:
        return msgspec.structs.replace(result, verdict=Verdict.VOID, detail=judged.failure)
    if judged.flaky is not None:
        return msgspec.structs.replace(result, verdict=Verdict.FLAKY, detail=judged.flaky)
    decided = [_decide(finding, judged, book, context) for finding in judged.findings]
    decided += _missing(judged, book, context)
    return msgspec.structs.replace(
        result, decided=tuple(decided), verdict=worst(item.verdict for item in decided)
    )


def conclude(
    results: Sequence[ScenarioResult],
    book: Book,
    context: Context,
    replays: Sequence[Replay] = (),
    not_compared: Sequence[NotCompared] = (),
) -> Outcome:
    """The verdicts on records as such, the counts, the run's verdict and its exit code."""
    verdicts = _judge_records(results, book, context, replays)
    counts: dict[str, int] = {}
    judged = [result for result in results if not result.is_ahead]
    every = [result.verdict for result in judged] + [verdict.verdict for verdict in verdicts]
    for verdict in Verdict:
        if verdict in every:
            counts[verdict.value] = every.count(verdict)
    return Outcome(
        scenarios=tuple(results),
        records=verdicts,
        counts=counts,
        verdict=worst(every),
        exit_code=_exit_code(judged, every),
        not_compared=tuple(not_compared),
    )


def _exit_code(results: Sequence[ScenarioResult], every: Sequence[Verdict]) -> ExitCode:
    if any(item.finding.attribution == "harness" for result in results for item in result.decided):
        return ExitCode.HARNESS
    if not results or Verdict.VOID in every:
        return ExitCode.INCONCLUSIVE
    return ExitCode.OK if all(verdict.passes for verdict in every) else ExitCode.FINDINGS


def _decide(finding: Finding, judged: Judged, book: Book, context: Context) -> Decided:
    if finding.attribution == "harness":
        return Decided(
            finding, None, Verdict.NEW, "the comparison itself is at fault; no record can cover that"
        )
    if finding.attribution == "mirrored":
        return _decide_mirrored(finding, judged, book, context)
    return _decide_difference(finding, judged, book, context)


def _decide_mirrored(finding: Finding, judged: Judged, book: Book, context: Context) -> Decided:
    records = book.mirrored(finding.fingerprint)
    if len(records) != 1:
        return _none_or_many(finding, records, book)
    record = records[0]
    for claim in book.claims(judged.id):
        if claim.record is not record or claim.fingerprint != finding.fingerprint:
            continue
        if claim.scenario_hash not in (None, judged.scenario_hash):
            return _changed(finding, record, "the scenario changed since it was recorded")
        if not claim.required:
            continue
        if claim.has_outcomes:
            reason = _why_changed(claim, finding, judged)
            if reason is not None:
                return _changed(finding, record, reason)
            continue
        if (claim.at, claim.oracle, claim.subject) != (finding.at, finding.oracle, finding.subject):
            return _changed(
                finding,
                record,
                f"the exemplar was recorded with {json.dumps(claim.oracle)} and {json.dumps(claim.subject)}",
            )
    return _covered(finding, record, context)


def _decide_difference(finding: Finding, judged: Judged, book: Book, context: Context) -> Decided:
    claims = book.differences(judged.id, finding.fingerprint)
    if len(claims) != 1:
        return _none_or_many(finding, [claim.record for claim in claims], book)
    reason = _why_changed(claims[0], finding, judged)
    if reason is not None:
        return _changed(finding, claims[0].record, reason)
    return _covered(finding, claims[0].record, context)


def _why_changed(claim: Claim, finding: Finding, judged: Judged) -> str | None:
    if claim.scenario_hash not in (None, judged.scenario_hash):
        return "the scenario changed since it was recorded"
    moved = claim.moved(finding)
    if moved and claim.has_outcomes:
        return f"an outcome of the {' and of the '.join(moved)} is not on record"
    if moved:
        return f"the whole observation of the {' and of the '.join(moved)} is no longer the recorded one"
    if claim.is_difference and _moved_within_digest(claim, finding):
        return f"the log probabilities were recorded as {json.dumps(claim.oracle)} and {json.dumps(claim.subject)}"
    return None


def _moved_within_digest(claim: Claim, finding: Finding) -> bool:
    """Whether log probabilities differ elsewhere or otherwise than recorded: no digest holds them."""
    path = split(claim.at)
    if numerics.KEYS.isdisjoint(path):
        return False
    pairs = ((claim.oracle, finding.oracle), (claim.subject, finding.subject))
    are_near = all(first_difference(recorded, seen, path) is None for recorded, seen in pairs)
    return claim.at != finding.at or not are_near


def _covered(finding: Finding, record: Record, context: Context) -> Decided:
    if _expired(record, context):
        return Decided(
            finding, record.id, Verdict.EXPIRED, f"expired on {record.front.expires}: decide again"
        )
    return Decided(finding, record.id, Verdict.COVERED, None)


def _changed(finding: Finding, record: Record, reason: str) -> Decided:
    return Decided(finding, record.id, Verdict.CHANGED, reason)


def _none_or_many(finding: Finding, records: Sequence[Record], book: Book) -> Decided:
    if records:
        names = " and ".join(dict.fromkeys(record.id for record in records))
        return Decided(finding, None, Verdict.AMBIGUOUS, f"decided more than once: {names}")
    return Decided(finding, None, Verdict.NEW, _hint(book.knowing(finding.fingerprint)))


def _hint(knowing: Sequence[Record]) -> str | None:
    """What a person can do about a finding that nothing covers though a record has its shape."""
    for record in knowing:
        if record.front.state == "proposed":
            return f"{record.id} is only proposed: review it, then `parity record accept {record.id}`"
    for record in knowing:
        if record.front.state == "accepted":
            return f"{record.id} has this shape, but not in this scenario"
    for record in knowing:
        return f"{record.id} decided this shape once and is {record.front.state}"
    return None


def _missing(judged: Judged, book: Book, context: Context) -> list[Decided]:
    """Claims on this scenario that no finding bears out."""
    shown = {(finding.fingerprint, finding.attribution == "mirrored") for finding in judged.findings}
    differs = any(finding.attribution != "mirrored" for finding in judged.findings)
    missing = []
    for claim in book.claims(judged.id):
        if not claim.required or (claim.fingerprint, not claim.is_difference) in shown:
            continue
        if claim.has_outcomes and judged.oracle_outcomes:
            missing.append(_stayed_away(claim, judged, context))
        else:
            missing.append(_gone(claim, judged, differs=differs))
    return missing


def _stayed_away(claim: Claim, judged: Judged, context: Context) -> Decided:
    """A claim on a scenario with outcomes: one that did not show up proves nothing, one that is not listed does."""
    finding = msgspec.structs.replace(
        claim.recorded(),
        oracle_digest=judged.oracle_digest or "",
        subject_digest=judged.subject_digest or "",
        oracle_outcomes=judged.oracle_outcomes,
        subject_outcomes=judged.subject_outcomes,
    )
    reason = _why_changed(claim, finding, judged)
    if reason is not None:
        return _changed(finding, claim.record, reason)
    decided = _covered(finding, claim.record, context)
    if decided.verdict is not Verdict.COVERED:
        return decided
    plays = sum(seen.count for seen in judged.oracle_outcomes.values()) or 1
    on_record = "" if claim.rate is None else f"; on record {claim.rate}"
    hint = f"did not show in {plays} play{'' if plays == 1 else 's'}{on_record}"
    return msgspec.structs.replace(decided, hint=hint)


def _gone(claim: Claim, judged: Judged, *, differs: bool) -> Decided:
    if claim.scenario_hash not in (None, judged.scenario_hash):
        return _changed(claim.recorded(), claim.record, "the scenario changed since it was recorded")
    if claim.is_difference and differs:
        return _changed(claim.recorded(), claim.record, "the scenario differs, but not in the recorded shape")
    return Decided(
        claim.recorded(), claim.record.id, Verdict.STALE, "the recorded finding no longer shows: retire it"
    )


def _judge_records(
    results: Sequence[ScenarioResult], book: Book, context: Context, replays: Sequence[Replay]
) -> tuple[RecordVerdict, ...]:
    by_id = {result.id: result for result in results}
    cited = {item.record for result in results for item in result.decided}
    told = {
        item.record
        for result in results
        for item in result.decided
        if item.verdict in (Verdict.EXPIRED, Verdict.STALE) and not result.is_ahead
    }
    verdicts = []
    for record in book.records:
        if record.front.state != "accepted":
            continue
        found: list[RecordVerdict] = []
        if not context.partial or record.id in cited or any(name in by_id for name in record.scenarios):
            found += _judge_record(record, by_id, context, told=record.id in told)
        found += [
            verdict
            for replay in replays
            if replay.record == record.id and (verdict := judge_replay(record, replay)) is not None
        ]
        if found:
            verdicts.append(min(found, key=lambda item: item.verdict.severity))
    return tuple(verdicts)


def _judge_record(
    record: Record, played: Mapping[str, ScenarioResult], context: Context, *, told: bool
) -> list[RecordVerdict]:
    found = []
    orphaned = _orphaned(record, context)
    if orphaned is not None:
        found.append(RecordVerdict(record.id, Verdict.ORPHAN, orphaned))
    if _expired(record, context) and not told:
        detail = f"expired on {record.front.expires}: decide again"
        found.append(RecordVerdict(record.id, Verdict.EXPIRED, detail))
    result = played.get(record.front.scenario or "")
    if result is not None and result.decided and not context.policies:
        detail = f"{result.id} had to keep matching, and has a finding: the hypothesis may hold after all"
        found.append(RecordVerdict(record.id, Verdict.CHANGED, detail))
    return found


def judge_replay(record: Record, replay: Replay) -> RecordVerdict | None:
    """What a replayed `diverging` entry says of its record; null where it came out as recorded."""
    judged, entry = replay.judged, replay.entry
    where = f"{entry.scenario} under {record.front.policy}"
    if judged.failure is not None:
        return RecordVerdict(record.id, Verdict.VOID, f"{where}: {judged.failure}")
    if judged.flaky is not None:
        return RecordVerdict(record.id, Verdict.FLAKY, f"{where}: {judged.flaky}")
    differences = [finding for finding in judged.findings if finding.attribution != "mirrored"]
    if not differences:
        return RecordVerdict(record.id, Verdict.STALE, f"{where}: no difference is left")
    claim = entry_claim(record, entry, required=True)
    for finding in differences:
        if finding.fingerprint == entry.fingerprint:
            reason = _why_changed(claim, finding, judged)
            return None if reason is None else RecordVerdict(record.id, Verdict.CHANGED, f"{where}: {reason}")
    return RecordVerdict(record.id, Verdict.CHANGED, f"{where}: it differs, but not in the recorded shape")


def _orphaned(record: Record, context: Context) -> str | None:
    for scenario in record.scenarios:
        if scenario not in context.scenarios:
            return f"names the scenario {scenario}, which does not exist"
    if record.policy is None:
        return None
    name, value = record.policy
    if name not in context.choices:
        return f"names the policy {name}, which the engine does not have"
    if value not in context.choices[name]:
        return f"names {name}={value}; the engine knows {', '.join(context.choices[name])}"
    return None


def _expired(record: Record, context: Context) -> bool:
    return record.front.expires is not None and record.front.expires < context.today

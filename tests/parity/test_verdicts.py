"""The table of docs/verdicts.md, row by row, and the exit codes."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec
import pytest

from parity.errors import ExitCode
from parity.finding import Outcome, RecordVerdict, Verdict, worst
from parity.records.match import Book
from parity.records.record import Record
from parity.verdicts import conclude, decide, decide_scenario
from tests.records.miniature import (
    TODAY,
    context,
    digest_of,
    exemplar,
    finding,
    judged,
    print_of,
    record,
)

HERE, THERE = "auto-fit/null-block", "auto-fit/other"
MIRRORED = finding(1)
DIFFERS = finding(2, "ours")


def one(outcome: Outcome) -> tuple[Verdict, str | None, str | None]:
    """The only finding's verdict, record and hint."""
    (item,) = outcome.scenarios[0].decided
    assert outcome.scenarios[0].verdict is item.verdict
    return item.verdict, item.record, item.hint


def with_state(state: str, of: Any = MIRRORED) -> Record:
    return record(of, state=state)


# The rows of the table.


def test_no_finding_and_no_record_is_match() -> None:
    outcome = decide([judged()], [], context())

    assert outcome.scenarios[0].verdict is Verdict.MATCH
    assert (outcome.counts, outcome.exit_code) == ({"MATCH": 1}, ExitCode.OK)


@pytest.mark.parametrize("found", [MIRRORED, DIFFERS])
def test_a_finding_without_a_record_is_new(found: Any) -> None:
    outcome = decide([judged(HERE, found)], [], context())

    assert one(outcome) == (Verdict.NEW, None, None)
    assert outcome.exit_code is ExitCode.FINDINGS


@pytest.mark.parametrize("found", [MIRRORED, DIFFERS])
def test_a_proposed_record_does_not_cover_and_is_named(found: Any) -> None:
    verdict, name, hint = one(decide([judged(HERE, found)], [with_state("proposed", found)], context()))

    assert (verdict, name) == (Verdict.NEW, None)
    assert hint is not None
    assert "auto-fit/decided is only proposed" in hint


@pytest.mark.parametrize("state", ["retired", "withdrawn"])
def test_a_record_that_was_taken_back_does_not_cover(state: str) -> None:
    verdict, _, hint = one(decide([judged(HERE, MIRRORED)], [with_state(state)], context()))

    assert verdict is Verdict.NEW
    assert hint == f"auto-fit/decided decided this shape once and is {state}"


def test_a_record_with_the_shape_but_not_the_scenario_is_a_hint_only() -> None:
    verdict, _, hint = one(decide([judged(THERE, DIFFERS)], [record(DIFFERS)], context(partial=True)))

    assert verdict is Verdict.NEW
    assert hint == "auto-fit/decided has this shape, but not in this scenario"


def test_a_mirrored_finding_is_covered_in_every_scenario() -> None:
    outcome = decide(
        [judged(HERE, MIRRORED), judged(THERE, finding(1, oracle=9, subject=9))], [record()], context()
    )

    assert [item.verdict for item in outcome.scenarios] == [Verdict.COVERED, Verdict.COVERED]
    assert {item.decided[0].record for item in outcome.scenarios} == {"auto-fit/decided"}
    assert outcome.exit_code is ExitCode.OK


def test_a_difference_is_covered_where_both_whole_observations_are_the_recorded_ones() -> None:
    outcome = decide([judged(HERE, DIFFERS)], [record(DIFFERS)], context())

    assert one(outcome) == (Verdict.COVERED, "auto-fit/decided", None)


@pytest.mark.parametrize("side", ["oracle", "subject"])
def test_a_difference_whose_observation_changed_anywhere_is_changed(side: str) -> None:
    later = msgspec.structs.replace(DIFFERS, **{f"{side}_digest": digest_of(77)})
    verdict, name, hint = one(decide([judged(HERE, later)], [record(DIFFERS)], context()))

    assert (verdict, name) == (Verdict.CHANGED, "auto-fit/decided")
    assert hint == f"the whole observation of the {side} is no longer the recorded one"


@pytest.mark.parametrize("found", [MIRRORED, DIFFERS])
def test_a_recorded_scenario_without_its_finding_is_stale(found: Any) -> None:
    outcome = decide([judged(HERE)], [record(found)], context())

    verdict, name, _ = one(outcome)
    assert (verdict, name) == (Verdict.STALE, "auto-fit/decided")
    assert outcome.scenarios[0].decided[0].finding.fingerprint == found.fingerprint
    assert outcome.exit_code is ExitCode.FINDINGS


def test_a_record_past_its_expiry_is_expired_and_on_the_day_itself_it_is_not() -> None:
    yesterday = TODAY - datetime.timedelta(days=1)

    late = decide([judged(HERE, MIRRORED)], [record(expires=yesterday)], context())
    in_time = decide([judged(HERE, MIRRORED)], [record(expires=TODAY)], context())

    assert one(late)[0] is Verdict.EXPIRED
    assert late.records == ()  # the scenario says it already
    assert one(in_time)[0] is Verdict.COVERED


def test_an_expired_record_is_told_even_where_no_scenario_rests_on_it() -> None:
    yesterday = TODAY - datetime.timedelta(days=1)
    outcome = decide([judged(THERE)], [record(expires=yesterday)], context())

    assert [(item.id, item.verdict) for item in outcome.records] == [("auto-fit/decided", Verdict.EXPIRED)]
    assert outcome.exit_code is ExitCode.FINDINGS


def test_what_is_newer_than_the_suite_decides_nothing_and_hides_no_expired_record() -> None:
    late = record(expires=TODAY - datetime.timedelta(days=1))
    for records, counts, code in (([], {"MATCH": 1}, 0), ([late], {"EXPIRED": 1, "MATCH": 1}, 1)):
        book = Book(records, {})
        newer, usual = (
            decide_scenario(item, book, context()) for item in (judged(HERE, MIRRORED), judged(THERE))
        )
        newer = msgspec.structs.replace(newer, is_ahead=True)

        outcome = conclude([newer, usual], book, context())

        assert (outcome.counts, outcome.exit_code) == (counts, code)
        assert outcome.scenarios == (newer, usual)


def test_a_record_that_names_no_existing_scenario_is_an_orphan() -> None:
    gone = record(exemplars=[exemplar(MIRRORED, "auto-fit/renamed")])
    outcome = decide([judged(THERE)], [gone], context())

    assert outcome.records == (
        RecordVerdict(
            "auto-fit/decided", Verdict.ORPHAN, "names the scenario auto-fit/renamed, which does not exist"
        ),
    )
    assert outcome.exit_code is ExitCode.FINDINGS


@pytest.mark.parametrize("policy", ["no-such=reserve", "null-block-capacity=no-such"])
def test_a_record_that_names_no_existing_policy_is_an_orphan(policy: str) -> None:
    outcome = decide([judged(HERE, MIRRORED)], [record(policy=policy)], context())

    assert [item.verdict for item in outcome.records] == [Verdict.ORPHAN]
    assert "no-such" in outcome.records[0].detail


@pytest.mark.parametrize("found", [MIRRORED, DIFFERS])
def test_two_accepted_records_for_one_finding_are_ambiguous(found: Any) -> None:
    records = [record(found, "auto-fit/one"), record(found, "auto-fit/two")]
    verdict, name, hint = one(decide([judged(HERE, found)], records, context()))

    assert (verdict, name) == (Verdict.AMBIGUOUS, None)
    assert hint == "decided more than once: auto-fit/one and auto-fit/two"


def test_a_side_that_disagrees_with_itself_is_flaky() -> None:
    outcome = decide([judged(flaky="the oracle disagrees with itself")], [record()], context())

    assert (outcome.scenarios[0].verdict, outcome.scenarios[0].decided) == (Verdict.FLAKY, ())
    assert outcome.exit_code is ExitCode.FINDINGS


def test_a_side_that_failed_is_void_and_never_covered_or_stale() -> None:
    outcome = decide([judged(failure="the oracle failed: died")], [record()], context())

    assert (outcome.scenarios[0].verdict, outcome.scenarios[0].decided) == (Verdict.VOID, ())
    assert outcome.scenarios[0].detail == "the oracle failed: died"
    assert outcome.exit_code is ExitCode.INCONCLUSIVE


# Nothing hides behind a record.


def test_a_difference_behind_a_mirrored_finding_is_new() -> None:
    outcome = decide([judged(HERE, MIRRORED, DIFFERS)], [record()], context())

    assert [item.verdict for item in outcome.scenarios[0].decided] == [Verdict.COVERED, Verdict.NEW]
    assert outcome.scenarios[0].verdict is Verdict.NEW


def test_a_mirrored_record_does_not_cover_a_difference_of_the_same_fingerprint() -> None:
    outcome = decide([judged(THERE, finding(1, "ours"))], [record()], context(partial=True))

    assert one(outcome)[0] is Verdict.NEW


def test_a_difference_of_another_shape_is_new_and_its_record_changed() -> None:
    outcome = decide([judged(HERE, finding(5, "ours"))], [record(DIFFERS)], context())

    assert [(item.verdict, item.record) for item in outcome.scenarios[0].decided] == [
        (Verdict.NEW, None),
        (Verdict.CHANGED, "auto-fit/decided"),
    ]


@pytest.mark.parametrize("found", [MIRRORED, DIFFERS])
@pytest.mark.parametrize("shows", [True, False])
def test_a_scenario_that_changed_since_it_was_recorded_is_changed(found: Any, shows: bool) -> None:
    played = judged(HERE, *([found] if shows else []), scenario_hash="sha256:" + "2" * 64)
    verdict, _, hint = one(decide([played], [record(found)], context()))

    assert (verdict, hint) == (Verdict.CHANGED, "the scenario changed since it was recorded")


def test_a_mirrored_exemplar_with_other_values_is_changed() -> None:
    verdict, _, hint = one(decide([judged(HERE, finding(1, oracle=63, subject=63))], [record()], context()))

    assert (verdict, hint) == (Verdict.CHANGED, "the exemplar was recorded with 64 and 64")


def test_a_fault_of_the_comparison_is_never_covered_and_is_our_own_fault() -> None:
    found = finding(3, "harness")
    outcome = decide([judged(HERE, found)], [record(found)], context())

    assert outcome.scenarios[0].decided[0].verdict is Verdict.NEW
    assert outcome.exit_code is ExitCode.HARNESS


# Falsified hypotheses.


def falsified() -> Record:
    nothing = {"decision": None, "attribution": None, "fingerprints": [], "exemplars": []}
    return record(kind="falsified", scenario=HERE, **nothing)


def test_a_falsified_hypothesis_asks_its_scenario_to_go_on_matching() -> None:
    matches = decide([judged(HERE)], [falsified()], context())
    does_not = decide([judged(HERE, MIRRORED)], [falsified(), record(name="auto-fit/two")], context())

    assert (matches.records, matches.exit_code) == ((), ExitCode.OK)
    assert does_not.scenarios[0].verdict is Verdict.COVERED
    assert [(item.id, item.verdict) for item in does_not.records] == [("auto-fit/decided", Verdict.CHANGED)]
    assert does_not.exit_code is ExitCode.FINDINGS


# Partial runs, counts, exit codes.


def test_a_partial_run_judges_only_records_that_touch_what_was_played() -> None:
    yesterday = TODAY - datetime.timedelta(days=1)
    records = [
        record(
            MIRRORED, "auto-fit/elsewhere", expires=yesterday, exemplars=[exemplar(MIRRORED, "auto-fit/gone")]
        ),
        record(
            DIFFERS, "auto-fit/here", exemplars=[exemplar(DIFFERS, HERE), exemplar(DIFFERS, "auto-fit/gone")]
        ),
    ]

    partial = decide([judged(HERE, DIFFERS)], records, context(partial=True))
    full = decide([judged(HERE, DIFFERS)], records, context())

    assert [(item.id, item.verdict) for item in partial.records] == [("auto-fit/here", Verdict.ORPHAN)]
    assert [item.id for item in full.records] == ["auto-fit/elsewhere", "auto-fit/here"]


def test_a_record_that_covers_outside_its_exemplars_is_touched_as_well() -> None:
    covering = record(policy="no-such=value")

    outcome = decide([judged(THERE, MIRRORED)], [covering], context(partial=True))

    assert [item.verdict for item in outcome.records] == [Verdict.ORPHAN]


def test_a_proposed_record_is_never_judged_as_a_record() -> None:
    gone = record(state="proposed", exemplars=[exemplar(MIRRORED, "auto-fit/gone")], policy="no-such=value")

    assert decide([judged(HERE)], [gone], context()).records == ()


def test_a_record_has_one_verdict_the_worst() -> None:
    yesterday = TODAY - datetime.timedelta(days=1)
    both = record(expires=yesterday, policy="no-such=value")

    outcome = decide([judged(THERE)], [both], context())

    assert [item.verdict for item in outcome.records] == [Verdict.ORPHAN]


def test_nothing_examined_is_inconclusive() -> None:
    assert decide([], [], context()).exit_code is ExitCode.INCONCLUSIVE


def test_void_outweighs_new_in_the_exit_code_and_in_the_verdict() -> None:
    outcome = decide([judged(HERE, failure="died"), judged(THERE, MIRRORED)], [], context())

    assert (outcome.verdict, outcome.exit_code) == (Verdict.VOID, ExitCode.INCONCLUSIVE)


def test_counts_have_scenarios_and_records_from_the_worst_to_the_best() -> None:
    records = [record(), record(finding(9), "auto-fit/gone", policy="no-such=value", exemplars=[])]
    outcome = decide([judged(HERE, MIRRORED), judged(THERE)], records, context())

    assert list(outcome.counts.items()) == [("ORPHAN", 1), ("COVERED", 1), ("MATCH", 1)]


def test_the_order_of_the_verdicts() -> None:
    order = ["VOID", "FLAKY", "AMBIGUOUS", "NEW", "CHANGED", "STALE", "ORPHAN", "EXPIRED", "COVERED", "MATCH"]

    assert [verdict.value for verdict in Verdict] == order
    assert worst([Verdict.MATCH, Verdict.EXPIRED, Verdict.NEW]) is Verdict.NEW
    assert worst([]) is Verdict.MATCH
    assert print_of(1) != print_of(2)


LOGPROB = "exchanges[0].body.choices[0].logprobs.token_logprobs[0]"
OFF = finding(7, "ours", at=LOGPROB, oracle=-1.0, subject=-1.5)


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, Verdict.COVERED),
        ({"oracle": -1.0001, "subject": -1.4999}, Verdict.COVERED),
        ({"subject": -9.0}, Verdict.CHANGED),
        ({"oracle": -1.001}, Verdict.CHANGED),
        ({"at": LOGPROB.replace("[0]", "[1]")}, Verdict.CHANGED),
    ],
)
def test_log_probabilities_that_differ_are_covered_as_they_were_recorded(
    changes: Any, verdict: Verdict
) -> None:
    """No digest holds them, so their place and values do."""
    seen = finding(7, "ours", **{"at": LOGPROB, "oracle": -1.0, "subject": -1.5, **changes})

    (item,) = decide([judged(HERE, seen)], [record(OFF)], context()).scenarios[0].decided

    assert item.verdict is verdict


def test_log_probabilities_that_differ_behind_a_recorded_difference_are_new() -> None:
    differs = finding(2, "ours")

    (scenario,) = decide([judged(HERE, differs, OFF)], [record(differs)], context()).scenarios

    assert [item.verdict for item in scenario.decided] == [Verdict.COVERED, Verdict.NEW]

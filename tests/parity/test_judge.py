"""Whose a finding is, from both sides' plays."""

from __future__ import annotations

import pytest

from parity import judge as judging
from parity.finding import Difference, Judged, Seen
from parity.judge import judge
from parity.observation import digest
from tests.records.miniature import FIRST, LAST, case, empty_step, plan, plays, schedule, step

KEEPS = plan()
BREAKS_LENGTH = plan(max_model_len=160)  # 159 slots need ten blocks, nine are usable
BREAKS_LABEL = plan(kv_cache_size_tokens=160)
BREAKS_BOTH = plan(max_model_len=160, kv_cache_size_tokens=160)
OTHER = plan(bytes_per_block=2048)


def brief(judged: Judged) -> list[tuple[str, str | None, str]]:
    return [(item.attribution, item.property, item.at) for item in judged.findings]


def test_equal_sides_that_keep_their_promises_have_no_finding() -> None:
    judged = judge(case(), plays(KEEPS), plays(KEEPS))

    assert judged.findings == ()
    assert (judged.failure, judged.flaky) == (None, None)
    assert (judged.oracle_digest, judged.subject_digest) == (digest(KEEPS), digest(KEEPS))


def test_a_property_broken_on_both_sides_is_mirrored() -> None:
    judged = judge(case(), plays(BREAKS_LENGTH), plays(BREAKS_LENGTH))

    (found,) = judged.findings
    assert (found.attribution, found.property) == ("mirrored", "serves-advertised-length")
    assert (found.at, found.oracle, found.subject) == ("max_model_len", 160, 160)
    assert found.oracle_digest == digest(BREAKS_LENGTH)


def test_each_mirrored_property_is_a_finding_of_its_own() -> None:
    judged = judge(case(), plays(BREAKS_BOTH), plays(BREAKS_BOTH))

    assert brief(judged) == [
        ("mirrored", "serves-advertised-length", "max_model_len"),
        ("mirrored", "label-within-usable", "kv_cache_size_tokens"),
    ]


@pytest.mark.parametrize(("mirrors", "whose"), [(True, "ours"), (False, "differs")])
def test_a_difference_alone_is_ours_only_if_the_subject_claims_to_mirror(mirrors: bool, whose: str) -> None:
    judged = judge(case(), plays(KEEPS), plays(OTHER), mirrors=mirrors)

    assert brief(judged) == [(whose, None, "bytes_per_block")]


@pytest.mark.parametrize("mirrors", [True, False])
def test_a_difference_belongs_to_the_side_that_alone_breaks_a_property(mirrors: bool) -> None:
    ours = judge(case(), plays(KEEPS), plays(BREAKS_LENGTH), mirrors=mirrors)
    theirs = judge(case(), plays(BREAKS_LENGTH), plays(KEEPS), mirrors=mirrors)

    assert brief(ours) == [("ours", "serves-advertised-length", "max_model_len")]
    assert brief(theirs) == [("theirs", "serves-advertised-length", "max_model_len")]


def test_the_finding_stands_at_the_first_difference_and_not_where_the_property_breaks() -> None:
    judged = judge(case(), plays(KEEPS), plays(plan(num_blocks=11, kv_cache_size_tokens=160)))

    assert brief(judged) == [("ours", "label-within-usable", "num_blocks")]


def test_several_properties_of_one_side_are_one_finding() -> None:
    judged = judge(case(), plays(BREAKS_BOTH), plays(KEEPS))

    assert brief(judged) == [("theirs", "serves-advertised-length,label-within-usable", "max_model_len")]


def test_sides_that_break_different_properties_have_a_finding_each() -> None:
    judged = judge(case(), plays(BREAKS_LENGTH), plays(BREAKS_LABEL))

    assert brief(judged) == [
        ("ours", "label-within-usable", "max_model_len"),
        ("theirs", "serves-advertised-length", "max_model_len"),
    ]
    assert judged.findings[0].fingerprint != judged.findings[1].fingerprint


def test_a_mirrored_property_and_a_difference_are_two_findings() -> None:
    judged = judge(case(), plays(BREAKS_LENGTH), plays(plan(max_model_len=176)))

    assert brief(judged) == [
        ("mirrored", "serves-advertised-length", "max_model_len"),
        ("ours", None, "max_model_len"),
    ]


def test_a_waived_property_is_not_judged() -> None:
    waiving = case(waive=("serves-advertised-length",))

    assert judge(waiving, plays(BREAKS_LENGTH), plays(BREAKS_LENGTH)).findings == ()


def test_a_timeline_is_judged_by_its_own_level_and_not_as_a_plan() -> None:
    stalled = schedule(FIRST, empty_step(), empty_step(), end="stall")

    judged = judge(case(level="schedule"), plays(stalled), plays(stalled))

    assert brief(judged) == [("mirrored", "terminates", "end")]


def test_the_same_shape_in_another_scenario_has_the_same_fingerprint() -> None:
    short = schedule(FIRST, empty_step(), end="stall")
    long = schedule(FIRST, step(), step(), empty_step(), empty_step(), end="stall")

    (one,) = judge(case(level="schedule"), plays(short), plays(short)).findings
    (other,) = judge(case("preemption/other", "schedule"), plays(long), plays(long)).findings

    assert one.fingerprint == other.fingerprint
    assert one.oracle_digest != other.oracle_digest


@pytest.mark.parametrize("side", ["oracle", "subject"])
def test_a_failure_of_a_side_leaves_no_finding(side: str) -> None:
    fine, failed = plays(KEEPS), plays(KEEPS, failure="died with exit status 9")
    judged = judge(case(), failed if side == "oracle" else fine, failed if side == "subject" else fine)

    assert judged.failure == f"the {side} failed: died with exit status 9"
    assert judged.findings == ()
    assert judged.oracle_digest is None


def test_a_side_without_observation_failed() -> None:
    assert judge(case(), plays(KEEPS), plays()).failure == "the subject was not played"


def test_a_side_that_disagrees_with_itself_is_named_with_the_place() -> None:
    judged = judge(case(), plays(KEEPS, KEEPS, OTHER), plays(KEEPS))

    assert judged.flaky is not None
    assert "the oracle disagrees with itself between plays 1 and 3" in judged.flaky
    assert "bytes_per_block: 1024 and 2048" in judged.flaky
    assert judged.findings == ()


def test_a_side_that_agrees_with_itself_is_judged_once() -> None:
    judged = judge(case(), plays(KEEPS, KEEPS), plays(OTHER, OTHER, OTHER))

    assert brief(judged) == [("ours", None, "bytes_per_block")]
    assert judged.findings[0].oracle_outcomes == {}


def test_an_outcome_set_within_the_oracles_is_no_difference() -> None:
    judged = judge(case(outcomes=3), plays(KEEPS, OTHER, KEEPS), plays(OTHER, OTHER, OTHER))

    assert judged.findings == ()


def test_an_outcome_outside_the_oracles_set_is_a_difference_between_the_sets() -> None:
    stray = plan(bytes_per_block=512)
    judged = judge(case(outcomes=3), plays(OTHER, KEEPS, KEEPS), plays(KEEPS, KEEPS, stray))

    (found,) = judged.findings
    assert (found.attribution, found.at, found.oracle, found.subject) == (
        "ours",
        "outcomes",
        ["ok", "ok"],
        "ok",
    )
    other = judge(case(outcomes=1), plays(KEEPS), plays(stray))
    assert other.findings[0].fingerprint == found.fingerprint  # whichever outcomes the oracle showed
    assert {key: seen.count for key, seen in found.oracle_outcomes.items()} == {
        digest(OTHER): 1,
        digest(KEEPS): 2,
    }
    assert found.subject_outcomes == {digest(KEEPS): Seen(2, "ok"), digest(stray): Seen(1, "ok")}


def test_the_digest_of_an_outcome_set_does_not_depend_on_order_or_rate() -> None:
    one = judge(case(outcomes=3), plays(KEEPS, OTHER, OTHER), plays(KEEPS))
    other = judge(case(outcomes=2), plays(OTHER, KEEPS), plays(KEEPS))

    assert one.oracle_digest == other.oracle_digest
    assert one.oracle_digest not in (digest(KEEPS), digest(OTHER))


def test_a_property_that_any_outcome_breaks_is_broken() -> None:
    mixed = plays(KEEPS, BREAKS_LENGTH)

    both = judge(case(outcomes=2), mixed, mixed)
    one = judge(case(outcomes=2), mixed, plays(KEEPS, KEEPS))

    assert brief(both) == [("mirrored", "serves-advertised-length", "max_model_len")]
    assert brief(one) == [("theirs", "serves-advertised-length", "max_model_len")]


def test_a_comparison_that_contradicts_itself_is_the_harness_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def blind(oracle: object, subject: object) -> Difference | None:
        del oracle, subject
        return None

    monkeypatch.setattr(judging, "first_difference", blind)

    judged = judge(
        case(level="schedule"), plays(schedule(FIRST, LAST)), plays(schedule(FIRST, LAST, end="refused"))
    )

    assert [item.attribution for item in judged.findings] == ["harness"]

"""Verdicts of runs under a policy, and of the replays that every full check makes."""

from __future__ import annotations

from typing import Any

import pytest

from parity.errors import ExitCode
from parity.finding import Outcome, Verdict
from parity.records.record import Record
from parity.verdicts import Replay, decide
from tests.records.miniature import context, digest_of, diverging, finding, judged, record

HERE = "auto-fit/null-block"
MIRRORED = finding(1)
DIFFERS = finding(2, "ours")
RESERVE = "null-block-capacity=reserve"


def verdict_of(outcome: Outcome) -> Verdict:
    """The verdict of the only finding of the only scenario."""
    (item,) = outcome.scenarios[0].decided
    return item.verdict


def policy_record(**changes: Any) -> Record:
    values = {"policy": RESERVE, "diverging": [diverging(finding(6, "theirs"))], **changes}
    return record(**values)


UNDER = context(policies={"null-block-capacity": "reserve"})


def test_under_a_policy_its_diverging_entries_cover() -> None:
    outcome = decide([judged(HERE, finding(6, "theirs"))], [policy_record()], UNDER)

    assert verdict_of(outcome) is Verdict.COVERED
    assert outcome.scenarios[0].decided[0].record == "auto-fit/decided"


def test_under_a_policy_a_second_change_behind_the_recorded_one_is_changed() -> None:
    later = finding(6, "theirs", subject_digest=digest_of(99))

    assert verdict_of(decide([judged(HERE, later)], [policy_record()], UNDER)) is Verdict.CHANGED


def test_under_a_policy_a_diverging_entry_that_does_not_show_is_stale() -> None:
    assert verdict_of(decide([judged(HERE)], [policy_record()], UNDER)) is Verdict.STALE


def test_under_another_policy_the_entries_do_not_cover() -> None:
    other = context(policies={"null-block-capacity": "count"})

    assert verdict_of(decide([judged(HERE, finding(6, "theirs"))], [policy_record()], other)) is Verdict.NEW


def test_without_a_policy_the_entries_do_not_cover() -> None:
    outcome = decide([judged(HERE, MIRRORED, finding(6, "theirs"))], [policy_record()], context())

    assert [item.verdict for item in outcome.scenarios[0].decided] == [Verdict.COVERED, Verdict.NEW]


def test_a_policy_at_its_pinned_value_is_no_policy() -> None:
    pinned = context(policies={"null-block-capacity": "pin"})

    assert verdict_of(decide([judged(HERE, MIRRORED)], [policy_record()], pinned)) is Verdict.COVERED
    assert verdict_of(decide([judged(HERE)], [policy_record()], pinned)) is Verdict.STALE


def test_under_a_policy_exemplars_still_cover_but_need_not_show() -> None:
    records = [record(MIRRORED, "auto-fit/mirrored"), record(DIFFERS, "auto-fit/differs")]

    shows = decide([judged(HERE, MIRRORED, DIFFERS)], records, UNDER)
    does_not = decide([judged(HERE)], records, UNDER)

    assert shows.scenarios[0].verdict is Verdict.COVERED
    assert does_not.scenarios[0].verdict is Verdict.MATCH


def replayed(*findings: Any, **changes: Any) -> Outcome:
    decided = policy_record()
    replay = Replay(decided.id, decided.front.diverging[0], judged(HERE, *findings, **changes))
    return decide([judged(HERE, MIRRORED)], [decided], context(), [replay])


def test_a_replay_that_comes_out_as_recorded_says_nothing() -> None:
    outcome = replayed(finding(6, "theirs"))

    assert (outcome.records, outcome.exit_code) == ((), ExitCode.OK)


@pytest.mark.parametrize(
    ("findings", "changes", "verdict", "detail"),
    [
        ([], {}, Verdict.STALE, "no difference is left"),
        ([MIRRORED], {}, Verdict.STALE, "no difference is left"),
        (
            [finding(6, "theirs", oracle_digest=digest_of(8))],
            {},
            Verdict.CHANGED,
            "the whole observation of the oracle",
        ),
        ([finding(8, "ours")], {}, Verdict.CHANGED, "not in the recorded shape"),
        ([], {"failure": "the subject failed: died"}, Verdict.VOID, "the subject failed: died"),
        ([], {"flaky": "the subject disagrees"}, Verdict.FLAKY, "the subject disagrees"),
    ],
)
def test_a_replay_that_does_not_gives_its_record_the_verdict(
    findings: Any, changes: Any, verdict: Verdict, detail: str
) -> None:
    outcome = replayed(*findings, **changes)

    (told,) = outcome.records
    assert (told.id, told.verdict) == ("auto-fit/decided", verdict)
    assert told.detail.startswith(f"{HERE} under {RESERVE}: ")
    assert detail in told.detail
    assert outcome.scenarios[0].verdict is Verdict.COVERED
    assert outcome.exit_code is (ExitCode.INCONCLUSIVE if verdict is Verdict.VOID else ExitCode.FINDINGS)

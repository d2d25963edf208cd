"""What a run says of a scenario that comes out in several ways, and of the records that list them."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from parity.finding import Decided, Finding, Judged, Seen, Verdict
from parity.records.match import Book
from parity.records.record import Record, Recorded
from parity.verdicts import decide
from tests.records.miniature import TODAY, context, digest_of, exemplar, finding, judged, record

HERE = "auto-fit/null-block"
ABORTED, FAILED, ALIVE, OTHER = (digest_of(number) for number in (20, 21, 22, 23))
LISTED = {
    ABORTED: Recorded("6 of 20", "stuck: 200 abort; process exited 0"),
    FAILED: Recorded("6 of 20", "stuck: 500 InternalServerError; process exited 0"),
    ALIVE: Recorded("8 of 20", "stuck: unanswered; process alive", ["answers", "exits-on-signal"]),
}
OURS = {ABORTED: Recorded("20 of 20", "stuck: 200 abort; process exited 0")}
THEIRS = finding(4, "theirs", property="answers")
ALSO_THEIRS = finding(5, "theirs", property="exits-on-signal")


def listing(of: Finding, name: str = "auto-fit/decided", **changes: Any) -> Record:
    entry = exemplar(of, oracle_outcomes=dict(LISTED), subject_outcomes=dict(OURS))
    return record(of, name, exemplars=[entry], **changes)


def played(*findings: Finding, oracle: tuple[str, ...], subject: tuple[str, ...] = (ABORTED,)) -> Judged:
    """A scenario whose sides showed these outcomes, once each, and these findings."""
    sides = {"oracle_outcomes": seen(oracle), "subject_outcomes": seen(subject)}
    found = [Finding(**{**fields(item), **sides}) for item in findings]
    return judged(HERE, *found, oracle_digest=oracle[0], subject_digest=subject[0], **sides)


def fields(item: Finding) -> dict[str, Any]:
    return {name: getattr(item, name) for name in item.__struct_fields__}


def seen(digests: tuple[str, ...]) -> dict[str, Seen]:
    return {key: Seen(1) for key in digests}


def decided(one: Judged, *records: Record) -> list[Decided]:
    return list(decide([one], records, context()).scenarios[0].decided)


def brief(one: Judged, *records: Record) -> list[tuple[Verdict, str | None, str | None]]:
    return [(item.verdict, item.record, item.hint) for item in decided(one, *records)]


def test_outcomes_that_are_all_on_record_are_covered() -> None:
    assert brief(played(THEIRS, oracle=(ALIVE, ABORTED)), listing(THEIRS)) == [
        (Verdict.COVERED, "auto-fit/decided", None)
    ]


def test_one_that_did_not_show_up_proves_nothing_and_is_told_with_its_rate() -> None:
    assert brief(played(oracle=(ABORTED, FAILED)), listing(THEIRS)) == [
        (Verdict.COVERED, "auto-fit/decided", "did not show in 2 plays; on record 8 of 20")
    ]


def test_without_words_on_record_there_is_no_rate_to_tell() -> None:
    bare = record(
        THEIRS,
        exemplars=[exemplar(THEIRS, oracle_outcomes={ABORTED: (3, 3)}, subject_outcomes={ABORTED: (3, 3)})],
    )

    assert brief(played(oracle=(ABORTED,)), bare) == [
        (Verdict.COVERED, "auto-fit/decided", "did not show in 1 play")
    ]


@pytest.mark.parametrize("found", [(THEIRS,), ()])
def test_an_outcome_of_the_oracle_that_is_not_listed_is_changed_with_and_without_a_finding(
    found: tuple[Finding, ...],
) -> None:
    assert brief(played(*found, oracle=(ALIVE, OTHER)), listing(THEIRS)) == [
        (Verdict.CHANGED, "auto-fit/decided", "an outcome of the oracle is not on record")
    ]


def test_an_oracle_that_does_for_once_what_the_subject_does_is_no_surprise() -> None:
    listed = {FAILED: Recorded("12 of 20"), ALIVE: Recorded("8 of 20", "", ["answers"])}
    entry = exemplar(THEIRS, oracle_outcomes=listed, subject_outcomes=dict(OURS))

    ((verdict, _, _),) = brief(
        played(THEIRS, oracle=(ALIVE, ABORTED)), record(THEIRS, "auto-fit/decided", exemplars=[entry])
    )

    assert verdict is Verdict.COVERED


def test_an_outcome_of_the_subject_that_is_not_listed_is_changed() -> None:
    ((verdict, _, hint),) = brief(played(oracle=(ABORTED,), subject=(FAILED,)), listing(THEIRS))

    assert (verdict, hint) == (Verdict.CHANGED, "an outcome of the subject is not on record")


def test_a_mirrored_record_lists_its_outcomes_as_well() -> None:
    both = finding(6, property="answers")

    fits = brief(played(both, oracle=(ALIVE,)), listing(both))
    does_not = brief(played(both, oracle=(OTHER,)), listing(both))

    assert [item[0] for item in fits] == [Verdict.COVERED]
    assert [item[0] for item in does_not] == [Verdict.CHANGED]


def test_of_several_claims_each_is_told_by_itself() -> None:
    records = [listing(THEIRS, "auto-fit/one"), listing(ALSO_THEIRS, "auto-fit/two")]

    assert brief(played(THEIRS, oracle=(ALIVE,)), *records) == [
        (Verdict.COVERED, "auto-fit/one", None),
        (Verdict.COVERED, "auto-fit/two", "did not show in 1 play; on record 8 of 20"),
    ]


def test_a_scenario_that_changed_since_is_changed_whatever_showed() -> None:
    one = played(oracle=(ABORTED,))
    other = judged(HERE, scenario_hash="sha256:" + "2" * 64, oracle_outcomes=one.oracle_outcomes)

    assert [item[0] for item in brief(other, listing(THEIRS))] == [Verdict.CHANGED]


def test_a_record_past_its_day_is_expired_even_if_nothing_showed() -> None:
    late = listing(THEIRS, expires=TODAY - datetime.timedelta(days=1))

    assert [item[0] for item in brief(played(oracle=(ABORTED,)), late)] == [Verdict.EXPIRED]


def test_a_scenario_that_has_no_outcomes_any_more_shows_its_finding_or_the_record_is_stale() -> None:
    """Nothing stays away by chance where one observation is expected; the scenario's hash does not tell."""
    once = judged(HERE, oracle_digest=FAILED, subject_digest=ABORTED)

    assert [item.verdict for item in decided(once, listing(THEIRS))] == [Verdict.STALE]


def test_what_stayed_away_keeps_the_plays_that_it_stayed_away_in() -> None:
    (item,) = decided(played(oracle=(ABORTED, FAILED)), listing(THEIRS))

    assert item.finding.fingerprint == THEIRS.fingerprint
    assert item.finding.oracle_outcomes == seen((ABORTED, FAILED))


def test_only_accepted_records_say_which_outcomes_are_known() -> None:
    book = Book([listing(THEIRS), listing(ALSO_THEIRS, "auto-fit/two", state="proposed")], {})
    none = Book([listing(THEIRS, state="proposed")], {})

    assert book.known_outcomes(HERE) == {ABORTED, FAILED, ALIVE}
    assert book.known_outcomes("auto-fit/other") == frozenset()
    assert none.known_outcomes(HERE) == frozenset()

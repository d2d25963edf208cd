"""Edges of what records say of outcomes, claims and ties that no committed record comes to."""

from __future__ import annotations

from typing import Any

import msgspec

from parity.diff import first_difference
from parity.finding import Plays, Seen, Verdict
from parity.fingerprint import difference_shape
from parity.observation import digest, plain
from parity.outcomes import outcomes
from parity.records.match import Book, Claim
from parity.records.record import Recorded
from parity.ties import GAP
from parity.token_lists import token_list
from parity.verdicts import decide
from tests.parity.served import answer, choice, completion, listed, serve
from tests.parity.served import case as served_case
from tests.records.miniature import (
    case,
    context,
    digest_of,
    diverging,
    exemplar,
    finding,
    judged,
    record,
    schedule,
    step,
)

HERE = "auto-fit/null-block"
RESERVE = "null-block-capacity=reserve"


def claim(**changes: Any) -> Claim:
    shown = finding(2, "ours")
    (only,) = Book([record(shown, exemplars=[exemplar(shown, **changes)])], {}).claims(HERE)
    return only


def test_outcomes_of_either_side_make_a_claim_one_of_outcomes() -> None:
    some = {digest_of(9): Recorded("1 of 2")}

    assert claim(oracle_outcomes=some).has_outcomes
    assert claim(subject_outcomes=some).has_outcomes
    assert not claim().has_outcomes


def test_the_oracle_is_held_to_its_digest_where_only_the_subject_has_outcomes() -> None:
    seen = finding(2, "ours")
    listed_for_the_subject = {digest_of(9): Recorded("1 of 2")}
    now = msgspec.structs.replace(seen, subject_outcomes={digest_of(9): Seen(1)})
    other = msgspec.structs.replace(now, oracle_digest=digest_of(77))

    assert claim(subject_outcomes=listed_for_the_subject).moved(now) == ()
    assert claim(subject_outcomes=listed_for_the_subject).moved(other) == ("oracle",)


def test_under_a_policy_an_exemplar_need_not_show_and_the_entry_behind_it_must() -> None:
    mirrored = finding(1)
    moved = diverging(mirrored, oracle=1, subject=1)
    records = [record(mirrored, policy=RESERVE, diverging=[moved])]

    outcome = decide([judged(HERE, mirrored)], records, context(policies={"null-block-capacity": "reserve"}))

    assert outcome.scenarios[0].verdict is Verdict.CHANGED


def test_the_oracle_says_which_request_a_place_is_about() -> None:
    oracle = schedule(step(waiting=["b"]))
    subject = schedule(step(waiting=["c"], preempted=["c"]))
    found = first_difference(
        plain(oracle), plain(msgspec.structs.replace(subject, steps=[step(waiting=["c"])]))
    )
    assert found is not None

    shape = difference_shape(case(level="schedule").scenario, "ours", (), found, oracle, subject)

    assert shape.role == "waiting/gone"  # of b


def test_a_play_is_the_outcome_that_it_ties_with_and_not_the_first() -> None:
    narrow = ("(", -1.1, {"e": -1.1 - GAP / 2})
    other_way = ("e", -1.1, {"(": -1.1 - GAP / 2})

    def played(token: Any, reason: str = "length") -> Any:
        return serve(answer(completion(choice(listed(token), token[0], reason), tokens=1)))

    first, second = played(("z", -1.0, {"y": -9.0}), "stop"), played(narrow)
    references = {digest(item): item for item in (first, second)}

    found = outcomes(served_case(outcomes=2), "subject", Plays((played(other_way),)), references)

    assert list(found.seen) == [digest(second)]
    assert [tie.position for tie in found.ties] == [0]


def test_alternatives_without_numbers_are_none() -> None:
    tokens = token_list(choice({"tokens": [">"], "token_logprobs": [None], "top_logprobs": [{">": None}]}))

    assert tokens is not None
    assert [(place.value, place.alternatives) for place in tokens.places] == [(None, ())]


def test_a_record_of_another_profile_is_none_of_the_books_and_is_counted() -> None:
    shown = finding(2, "ours")
    exact = record(shown, exemplars=[exemplar(shown)])
    counts = record(shown, exemplars=[exemplar(shown)], scope={"scheduler": "sync", "profile": "counts"})

    for profile, kept in (("exact", exact), ("counts", counts)):
        book = Book([exact, counts], {}, profile)

        assert book.records == (kept,)
        assert [claim.record for claim in book.claims(HERE)] == [kept]
        assert book.passed_over == 1

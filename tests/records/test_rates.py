"""How often each outcome came, from a run into a record, and from one run to the next."""

from __future__ import annotations

from typing import Any

from parity.finding import Finding, Seen
from parity.records.draft import Measured
from parity.records.observed import observed
from parity.records.record import Recorded
from parity.records.refresh import take_up
from tests.records.miniature import digest_of, exemplar, finding, record
from tests.records.test_draft import measured

ALIVE, ABORTED = digest_of(5), digest_of(6)
WORDS = "stuck: unanswered; process alive"


def run(alive: int, aborted: int, **changes: Any) -> Measured:
    counts = {ALIVE: alive, ABORTED: aborted}
    words = {ALIVE: (WORDS, ("answers",)), ABORTED: ("stuck: 200 abort", ())}
    outcomes = {key: Seen(count, *words[key]) for key, count in counts.items() if count}
    of: Finding = finding(2, "theirs", property="answers", oracle_outcomes=outcomes, **changes)
    return measured(of)


def test_an_outcome_is_recorded_with_its_rate_its_words_and_what_it_breaks() -> None:
    assert run(2, 1).exemplar().oracle_outcomes == {
        ALIVE: Recorded("2 of 3", WORDS, ["answers"]),
        ABORTED: Recorded("1 of 3", "stuck: 200 abort"),
    }


def test_a_further_run_adds_to_the_rates_and_loses_no_outcome() -> None:
    before = run(2, 1).exemplar()

    after = run(0, 3).exemplar(before).oracle_outcomes

    assert after == {
        ALIVE: Recorded("2 of 6", WORDS, ["answers"]),
        ABORTED: Recorded("4 of 6", "stuck: 200 abort"),
    }


def test_rates_of_another_question_are_not_carried_on() -> None:
    before = exemplar(finding(2, "theirs"), scenario_hash=digest_of(9), oracle_outcomes={ALIVE: (5, 5)})

    assert run(0, 3).exemplar(before).oracle_outcomes == {ABORTED: Recorded("3 of 3", "stuck: 200 abort")}


def test_taking_up_a_run_adds_its_plays_to_the_record() -> None:
    first = run(2, 1)
    decided = record(first.finding, exemplars=[first.exemplar()])

    (entry,) = take_up(decided, run(1, 0)).exemplars

    assert entry.oracle_outcomes[ALIVE] == Recorded("3 of 4", WORDS, ["answers"])


def test_what_is_observed_lists_each_outcome_in_words_and_once() -> None:
    first = run(2, 1)
    other = finding(3, "theirs", property="exits-on-signal", oracle_outcomes=first.finding.oracle_outcomes)
    entries = [first.exemplar(), measured(other).exemplar()]

    rows = observed(record(first.finding, exemplars=entries).front).splitlines()

    assert "Outcomes of `auto-fit/null-block`:" in rows
    assert rows.count(f"| oracle | {WORDS} | 2 of 3 | `answers` |") == 1
    assert rows.count("| oracle | stuck: 200 abort | 1 of 3 |  |") == 1

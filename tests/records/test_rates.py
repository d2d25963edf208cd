"""How often each outcome came, from a run into a record, and from one run to the next."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from parity.errors import UsageError
from parity.finding import Finding, Seen
from parity.records.draft import Measured
from parity.records.observed import observed
from parity.records.record import Recorded
from parity.records.refresh import take_up
from parity.runlog import SideLine
from tests.records.miniature import digest_of, exemplar, finding, record
from tests.records.test_draft import measured

ALIVE, ABORTED = digest_of(5), digest_of(6)
WORDS = "stuck: unanswered; process alive"


def run(alive: int, aborted: int, **changes: Any) -> Measured:
    counts = {ALIVE: alive, ABORTED: aborted}
    words = {ALIVE: (WORDS, ("answers",)), ABORTED: ("stuck: 200 abort", ())}
    outcomes = {key: Seen(count, *words[key]) for key, count in counts.items() if count}
    of: Finding = finding(2, "theirs", property="answers", oracle_outcomes=outcomes, **changes)
    return taking(measured(of), seconds=10.0 * alive + aborted)


def taking(of: Measured, seconds: float, *observations: Any) -> Measured:
    """The same, of plays that took the oracle so long."""
    side = SideLine(list(observations), None, seconds)
    return msgspec.structs.replace(of, line=msgspec.structs.replace(of.line, oracle=side))


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


def test_the_same_run_is_not_counted_twice() -> None:
    first, second = run(2, 1), run(1, 0)
    entry = first.exemplar()
    both = second.exemplar(entry)

    assert (entry.runs, both.runs) == ([first.stamp], [first.stamp, second.stamp])
    for again in (first, second):
        with pytest.raises(UsageError, match="plays of this run are in the rates already"):
            take_up(record(first.finding, exemplars=[both]), again)


def test_a_scenario_that_was_changed_begins_its_list_of_runs_anew() -> None:
    first = run(2, 1)
    changed = msgspec.structs.replace(first.exemplar(), scenario_hash=digest_of(9))

    assert first.exemplar(changed).runs == [first.stamp]


def test_another_shape_of_the_same_run_is_taken_up_beside_the_first() -> None:
    first = run(2, 1)
    other = finding(3, "theirs", property="exits-on-signal", oracle_outcomes=first.finding.oracle_outcomes)
    second = Measured(first.header, measured(first.finding, other).line, other)

    front = take_up(record(first.finding, exemplars=[first.exemplar()]), second)

    assert [entry.fingerprint for entry in front.exemplars] == [first.finding.fingerprint, other.fingerprint]


def test_where_one_observation_is_expected_no_runs_are_listed() -> None:
    assert measured(finding(2, "theirs")).exemplar().runs == []


def test_outcomes_that_hold_log_probabilities_are_not_recorded() -> None:
    with pytest.raises(UsageError, match="log probabilities, which no record of outcomes holds"):
        taking(run(2, 1), 1.0, {"exchanges": [{"body": {"logprob": -1.0}}]}).exemplar()
    assert taking(run(2, 1), 1.0, {"exchanges": [{"body": {"logprobs": None}}]}).exemplar().runs


def test_what_a_policy_yields_is_not_recorded_of_a_scenario_with_outcomes() -> None:
    first = run(2, 1)
    policies = {"null-block-capacity": "reserve"}
    under = msgspec.structs.replace(first, header=msgspec.structs.replace(first.header, policies=policies))

    with pytest.raises(UsageError, match="has outcomes; what a policy yields is recorded of one outcome"):
        take_up(record(first.finding, exemplars=[first.exemplar()]), under)


def test_what_is_observed_lists_each_outcome_in_words_and_once() -> None:
    first = run(2, 1)
    other = finding(3, "theirs", property="exits-on-signal", oracle_outcomes=first.finding.oracle_outcomes)
    entries = [first.exemplar(), measured(other).exemplar()]

    rows = observed(record(first.finding, exemplars=entries).front).splitlines()

    assert "Outcomes of `auto-fit/null-block`:" in rows
    assert rows.count(f"| oracle | {WORDS} | 2 of 3 | `answers` |") == 1
    assert rows.count("| oracle | stuck: 200 abort | 1 of 3 |  |") == 1

"""Which findings a hunt need not tell again."""

from __future__ import annotations

import msgspec
import pytest

from parity.fuzz.known import Known, known_from
from tests.records.miniature import diverging, finding, record


def test_an_accepted_record_makes_its_shape_known_in_any_scenario() -> None:
    one = finding(1, "mirrored")
    known = known_from([record(one, "preemption/decided")], {})

    assert known.record_of(one) == "preemption/decided"
    assert known.record_of(finding(2, "mirrored")) is None


@pytest.mark.parametrize("state", ["proposed", "retired", "withdrawn"])
def test_only_an_accepted_record_does(state: str) -> None:
    one = finding(1, "mirrored")

    assert known_from([record(one, state=state)], {}).record_of(one) is None


def test_a_difference_is_known_at_the_choices_that_it_was_recorded_at() -> None:
    one = finding(1, "differs")
    decided = record(one)

    assert known_from([decided], {}).record_of(one) == decided.id
    assert known_from([decided], {"null-block-capacity": "reserve"}).record_of(one) is None


def test_what_a_policy_yields_is_known_under_that_policy_alone() -> None:
    mirrored, theirs = finding(1, "mirrored"), finding(2, "theirs")
    decided = record(mirrored, policy="null-block-capacity=reserve", diverging=[diverging(theirs)])

    assert known_from([decided], {}).record_of(theirs) is None
    assert known_from([decided], {"null-block-capacity": "reserve"}).record_of(theirs) == decided.id
    assert known_from([decided], {"null-block-capacity": "count"}).record_of(theirs) is None


def test_a_fault_of_the_comparison_is_never_known() -> None:
    one = msgspec.structs.replace(finding(1, "differs"), attribution="harness")

    assert Known(differences={one.fingerprint: "any/record"}).record_of(one) is None

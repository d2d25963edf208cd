"""The shape of a finding: the same with other numbers, another with any other component."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest

from parity.diff import first_difference
from parity.finding import Broken
from parity.fingerprint import SYNTAX, Shape, broken_shape, difference_shape
from parity.observation import Observation, PlanError, plain
from tests.records.miniature import FIRST, case, empty_step, plan, schedule, step

SHAPE = Shape("schedule", "ours", "schedule", "steps[*].free", "less", "-", "preempt", "-")


def shape(oracle: Observation, subject: Observation, level: str = "schedule", names: Any = ()) -> Shape:
    found = first_difference(plain(oracle), plain(subject))
    assert found is not None
    return difference_shape(case(level=level).scenario, "ours", names, found, oracle, subject)


def test_a_fingerprint_is_its_version_and_sixteen_digits_of_the_lines_hash() -> None:
    line = "schedule|ours|schedule|steps[*].free|less|-|preempt|-"

    assert SHAPE.line == line
    assert SHAPE.fingerprint == "f1:" + hashlib.sha256(line.encode()).hexdigest()[:16]
    assert SYNTAX.fullmatch(SHAPE.fingerprint)


@pytest.mark.parametrize("component", [field.name for field in msgspec.structs.fields(Shape)])
def test_each_component_changes_the_fingerprint(component: str) -> None:
    other = msgspec.structs.replace(SHAPE, **{component: "another"})

    assert other.fingerprint != SHAPE.fingerprint


def test_other_steps_numbers_and_ids_have_the_same_fingerprint() -> None:
    early = shape(schedule(step()), schedule(step(scheduled=[("a", 2)])))
    late = shape(
        schedule(FIRST, step(), step(scheduled=[("z", 7)], blocks=[("z", [4])], running=["z"])),
        schedule(FIRST, step(), step(scheduled=[("z", 9)], blocks=[("z", [4])], running=["z"])),
    )

    assert early == late
    assert early.path == "steps[*].scheduled[*][1]"


def test_the_sign_of_a_difference_is_part_of_it() -> None:
    more = shape(plan(max_model_len=64), plan(max_model_len=80), "plan")
    less = shape(plan(max_model_len=64), plan(max_model_len=48), "plan")

    assert (more.kind, less.kind) == ("greater", "less")
    assert more.fingerprint != less.fingerprint


def test_a_position_in_a_pair_stays_and_an_index_into_a_list_does_not() -> None:
    blocks = shape(schedule(step()), schedule(step(blocks=[("a", [2])])))
    fraction = shape(plan(concurrency=(4, 4)), plan(concurrency=(4, 3)), "plan")

    assert blocks.path == "steps[*].blocks[*][1][*]"
    assert fraction.path == "concurrency[1]"


@pytest.mark.parametrize(
    ("change", "role"),
    [
        ({}, "running"),
        ({"new": ["a"], "cached": [("a", 0)]}, "new"),
        ({"resumed": ["a"], "cached": [("a", 0)]}, "resumed"),
    ],
)
def test_a_new_a_resumed_and_a_running_request_have_different_shapes(change: Any, role: str) -> None:
    found = shape(schedule(step(**change)), schedule(step(**change, scheduled=[("a", 2)])))

    assert found.role == role


def test_a_request_that_is_one_thing_here_and_another_there_has_both_roles() -> None:
    found = shape(schedule(step()), schedule(empty_step(preempted=["a"])))
    surplus = shape(schedule(step(preempted=[])), schedule(step(preempted=["b"], waiting=["b"])))

    assert found.role == "running/preempted"
    assert surplus.role == "gone/preempted"


@pytest.mark.parametrize(
    ("change", "event"),
    [
        ({"preempted": ["b"]}, "preempt"),
        ({"resumed": ["b"]}, "resume"),
        ({"cached": [("a", 16)]}, "hit"),
        ({"evicted": [3]}, "evict"),
    ],
)
def test_each_event_of_the_step_is_part_of_it(change: Any, event: str) -> None:
    quiet = shape(schedule(step()), schedule(step(free=7)))
    loud = shape(schedule(step(**change)), schedule(step(**change, free=7)))

    assert (quiet.events, loud.events) == ("-", event)
    assert quiet.fingerprint != loud.fingerprint


def test_a_step_that_schedules_nothing_is_a_stall() -> None:
    assert shape(schedule(empty_step()), schedule(empty_step(free=8))).events == "stall"


def test_how_many_tokens_were_cached_is_no_part_of_it() -> None:
    sixteen = shape(schedule(step(cached=[("a", 16)])), schedule(step(cached=[("a", 16)], free=7)))
    more = shape(schedule(step(cached=[("a", 48)])), schedule(step(cached=[("a", 48)], free=3)))

    assert sixteen == more


@pytest.mark.parametrize(
    ("oracle", "subject", "event"),
    [
        (schedule(step()), schedule(step(reset=[True])), "before"),
        (schedule(step()), schedule(step(free=7)), "schedule"),
        (schedule(step()), schedule(step(free_after=7)), "update"),
        (schedule(step(), end="stall"), schedule(step(), end="limit"), "end:stall/end:limit"),
        (schedule(step(), end="stall"), schedule(step(), step(), end="stall"), "end:stall"),
    ],
)
def test_the_event_says_what_was_going_on(oracle: Observation, subject: Observation, event: str) -> None:
    assert shape(oracle, subject).event == event


def test_the_kind_of_a_refusal_is_part_of_it_but_no_wording() -> None:
    small = shape(plan(), PlanError([], "kv-cache-too-small", 48), "plan")
    one = shape(plan(), PlanError([], "unrecognised: ValueError: 17 is too much", None), "plan")
    other = shape(plan(), PlanError([], "unrecognised: KeyError: 'x'", None), "plan")

    assert small.event == "plan:ok/plan:kv-cache-too-small"
    assert one.event == "plan:ok/plan:unrecognised"
    assert one == other


def test_properties_of_one_side_are_joined() -> None:
    found = shape(schedule(step()), schedule(step(free=7)), names=("terminates", "no-block-leak"))

    assert found.broken == "terminates,no-block-leak"


def test_a_property_that_both_sides_break_alike_has_one_shape_whatever_its_values() -> None:
    one = Broken("no-block-leak", "steps[3].free", 7, "schedule", "less", "-", ("evict",))
    other = Broken("no-block-leak", "steps[90].free", 2, "schedule", "less", "-", ("evict",))

    assert broken_shape("schedule", "mirrored", one, one) == broken_shape(
        "schedule", "mirrored", other, other
    )


def test_sides_that_break_a_property_in_different_ways_have_another_shape() -> None:
    stall = Broken("terminates", "end.kind", "stall", "end:stall", "broken", "preempted", ("stall",))
    limit = Broken("terminates", "end.kind", "limit", "end:limit", "broken", "running", ())

    found = broken_shape("schedule", "mirrored", stall, limit)

    assert (found.event, found.role, found.events) == ("end:stall/end:limit", "preempted/running", "stall/-")

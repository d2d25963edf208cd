"""What each promise asks of one side's observation."""

from __future__ import annotations

from typing import Any

import pytest

from parity.levels import PROPERTIES
from parity.observation import PlanError, Schedule, plain
from parity.properties import CHECKS, broken_properties
from parity.serve_properties import CHECKS as SERVE_CHECKS
from tests.records.miniature import FIRST, LAST, case, empty_step, plan, schedule, step


def broken(observation: Any, level: str = "schedule", **kw: Any) -> list[str]:
    found = broken_properties(case(level=level).scenario, observation, **kw)
    return [item.property for item in found]


def only(observation: Any, level: str = "schedule") -> Any:
    (item,) = broken_properties(case(level=level).scenario, observation)
    return item


def test_every_promised_property_has_a_check_in_the_same_order() -> None:
    checks: dict[str, Any] = {**CHECKS, "serve": SERVE_CHECKS}

    assert {level: tuple(found) for level, found in checks.items()} == PROPERTIES


@pytest.mark.parametrize(
    ("length", "usable", "names"),
    [
        (64, 3, ["serves-advertised-length"]),  # 63 slots need 4 blocks
        (49, 3, []),  # 48 slots need exactly 3
        (50, 3, ["serves-advertised-length"]),
        (1, 0, []),  # the only token is never written
        (2, 0, ["serves-advertised-length"]),
    ],
)
def test_a_request_of_the_advertised_length_must_fit(length: int, usable: int, names: list[str]) -> None:
    observation = plan(max_model_len=length, usable_blocks=usable, kv_cache_size_tokens=0)

    assert broken(observation, "plan") == names


@pytest.mark.parametrize(("tokens", "names"), [(48, []), (49, ["label-within-usable"])])
def test_the_label_must_not_exceed_the_usable_tokens(tokens: int, names: list[str]) -> None:
    observation = plan(max_model_len=16, usable_blocks=3, kv_cache_size_tokens=tokens)

    assert broken(observation, "plan") == names


def test_a_break_says_where_and_with_which_value() -> None:
    (length, label) = broken_properties(
        case().scenario, plan(max_model_len=64, usable_blocks=3, kv_cache_size_tokens=64)
    )

    assert (length.at, length.value) == ("max_model_len", 64)
    assert (label.at, label.value) == ("kv_cache_size_tokens", 64)


def test_a_refusal_to_start_promises_nothing() -> None:
    assert broken(PlanError([], "kv-cache-too-small", 48), "plan") == []


def test_a_refused_timeline_breaks_nothing() -> None:
    refused = schedule(end="refused")

    assert broken(refused) == []


def test_a_waived_property_is_not_judged() -> None:
    stalled = schedule(FIRST, empty_step(), empty_step(), end="stall")

    assert broken(stalled) == ["terminates"]
    assert broken(stalled, waived={"terminates"}) == []


@pytest.mark.parametrize("end", ["stall", "livelock", "limit", "error"])
def test_every_ending_but_done_and_refused_breaks_terminates(end: str) -> None:
    played = schedule(FIRST, end=end, period=1 if end == "livelock" else None)

    item = only(played)

    assert (item.property, item.at, item.event) == ("terminates", "end", f"end:{end}")
    assert item.value == plain(played)["end"]


def test_a_timeline_that_ends_keeps_its_promises() -> None:
    assert broken(schedule(FIRST, LAST)) == []


def test_a_stall_tells_what_the_empty_steps_at_its_end_did() -> None:
    preempted = empty_step(preempted=["a"])
    item = only(schedule(FIRST, preempted, empty_step(), end="stall"))

    assert (item.role, item.events) == ("preempted", ("preempt", "stall"))


def test_a_request_that_never_ran_is_told_from_one_that_was_preempted() -> None:
    item = only(schedule(empty_step(), empty_step(), end="stall"))

    assert (item.role, item.events) == ("never-admitted", ("stall",))


def test_both_are_told_where_both_are_left() -> None:
    item = only(schedule(FIRST, empty_step(waiting=["a", "b"]), end="stall"))

    assert item.role == "never-admitted+preempted"


def test_a_request_that_finished_in_the_last_step_is_not_left() -> None:
    both = step(
        running=["a", "b"],
        new=["a", "b"],
        blocks=[("a", [1]), ("b", [2])],
        free=7,
        finished=[("b", "length", None)],
    )
    item = only(schedule(both, end="limit"))

    assert item.role == "running"


def test_the_shape_of_a_livelock_does_not_depend_on_where_it_was_noticed() -> None:
    runs = step(resumed=["a"], cached=[("a", 0)])
    rests = empty_step(preempted=["a"])

    one = only(schedule(FIRST, rests, runs, rests, runs, end="livelock", period=2))
    other = only(schedule(FIRST, rests, runs, rests, end="livelock", period=2))

    assert (one.role, one.events) == (other.role, other.events)
    assert (one.role, one.events) == ("preempted+running", ("preempt", "resume", "stall"))


def leaks(observation: Schedule) -> tuple[str, str] | None:
    found = broken_properties(case(level="schedule").scenario, observation)
    return next(((item.at, item.kind) for item in found if item.property == "no-block-leak"), None)


def test_blocks_held_and_free_make_up_the_usable_ones() -> None:
    assert leaks(schedule(FIRST, LAST)) is None
    assert leaks(schedule(step(free=7), LAST)) == ("steps[0].free", "less")
    assert leaks(schedule(step(free=9), LAST)) == ("steps[0].free", "greater")


def test_a_shared_block_is_held_once() -> None:
    shared = step(running=["a", "b"], blocks=[("a", [1, 2]), ("b", [1, 3])], free=6, free_after=6)

    assert leaks(schedule(shared, end="limit")) is None


def test_after_the_update_what_ended_holds_nothing() -> None:
    assert leaks(schedule(step(finished=[("a", "length", None)], free_after=8))) == (
        "steps[0].free_after",
        "less",
    )
    assert leaks(schedule(step(aborted_late=[("a", 9)], free_after=9))) is None
    assert leaks(schedule(step(aborted_late=[("a", 8)], free_after=8))) == ("steps[0].free_after", "less")


def test_all_blocks_are_free_once_no_request_is_left() -> None:
    last = empty_step(waiting=[], free_after=8)

    assert leaks(schedule(FIRST, LAST, last)) == ("steps[2].free_after", "less")


def test_the_null_block_is_no_held_block() -> None:
    assert leaks(schedule(step(blocks=[("a", [0, 1])]), LAST)) is None

"""Endings are decided by state: blocks renamed by first appearance, stall, livelock, and what is forgotten."""

from __future__ import annotations

from oracle.driver.ending import StateHistory, renamed_blocks


def test_states_that_differ_by_a_renaming_are_equal() -> None:
    one = renamed_blocks([[1, 2]], [3], [None, "x", "y", None])
    other = renamed_blocks([[3, 1]], [2], [None, "y", None, "x"])

    assert one == other


def test_a_different_order_of_the_free_queue_is_another_state_where_hashes_tell_blocks_apart() -> None:
    one = renamed_blocks([], [1, 2], [None, "x", None])
    other = renamed_blocks([], [2, 1], [None, "x", None])

    assert one != other


def test_a_block_shared_by_two_tables_is_not_two_blocks() -> None:
    shared = renamed_blocks([[1], [1]], [2], [None] * 3)
    apart = renamed_blocks([[1], [2]], [], [None] * 3)

    assert shared != apart


def test_two_idle_steps_with_equal_state_are_a_stall() -> None:
    history = StateHistory()

    assert history.judge(7, False, "s") is None
    assert history.judge(8, False, "s") == ("stall", None)


def test_two_idle_steps_with_different_states_are_none() -> None:
    history = StateHistory()

    assert history.judge(7, False, "s") is None
    assert history.judge(8, False, "t") is None


def test_idle_steps_around_a_busy_one_are_no_stall() -> None:
    history = StateHistory()
    history.judge(7, False, "s")
    history.judge(8, True, "t")

    assert history.judge(9, False, "s") == ("livelock", 2)


def test_a_state_that_comes_back_after_work_is_a_livelock_with_its_period() -> None:
    history = StateHistory()

    assert [history.judge(step, True, state) for step, state in enumerate("abcd")] == [None] * 4
    assert history.judge(4, True, "b") == ("livelock", 3)


def test_a_state_that_was_seen_before_an_event_does_not_come_back() -> None:
    history = StateHistory()
    history.judge(0, True, "a")
    history.forget()

    assert history.judge(1, True, "a") is None


def test_an_idle_step_before_an_event_makes_no_stall() -> None:
    history = StateHistory()
    history.judge(0, False, "a")
    history.forget()

    assert history.judge(1, False, "a") is None
    assert history.judge(2, False, "a") == ("stall", None)


def test_a_busy_step_and_an_idle_one_with_equal_state_are_neither() -> None:
    history = StateHistory()

    assert history.judge(0, True, "a") is None
    assert history.judge(1, False, "a") is None

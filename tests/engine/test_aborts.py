"""Aborts in every state: nothing leaks, and what holds no block frees none. Measured on upstream 0.27.1."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.scenes import Requests, config, play


def abort(request_id: str, at: int, when: str = "before_schedule") -> dict[str, Any]:
    return {"id": request_id, "at": at, "when": when}


def test_aborting_a_running_request_frees_its_blocks_at_once() -> None:
    make = Requests().make

    actual = play(config(num_blocks=7), [make(40, 9), make(20, 3)], aborts=[abort("r0", 1)])

    assert actual["steps"][0]["free"] == 1
    assert actual["steps"][1]["aborted"] == [["r0", 4]]
    assert actual["steps"][-1]["free_after"] == 6
    assert actual["end"]["outputs"] == [["r0", 1], ["r1", 3]]


def test_aborting_a_waiting_request_frees_nothing_at_that_moment() -> None:
    make = Requests().make

    actual = play(config(num_blocks=7), [make(80, 3), make(40, 3)], aborts=[abort("r1", 1)])

    assert actual["steps"][0]["waiting"] == ["r1"]
    assert actual["steps"][1]["aborted"] == [["r1", actual["steps"][0]["free_after"]]]
    assert actual["steps"][-1]["free_after"] == 6


def test_aborting_a_preempted_request_frees_nothing_at_that_moment() -> None:
    make = Requests().make

    actual = play(config(num_blocks=7), [make(34, 35), make(34, 35)], aborts=[abort("r1", 16)])

    assert actual["steps"][15]["preempted"] == ["r1"]
    assert actual["steps"][16]["aborted"] == [["r1", actual["steps"][15]["free_after"]]]
    assert actual["steps"][-1]["free_after"] == 6


def test_an_abort_in_the_final_step_wins_over_the_length() -> None:
    actual = play(config(num_blocks=7), [Requests().make(8, 2)], aborts=[abort("r0", 1, "before_update")])

    assert actual["steps"][1]["aborted_late"] == [["r0", 6]]
    assert actual["steps"][1]["finished"] == []
    assert actual["end"] == {"kind": "done", "period": None, "error": None, "outputs": [["r0", 1]]}


@pytest.mark.parametrize("when", ["before_schedule", "before_update"])
def test_aborting_who_has_ended_or_not_arrived_is_noted_and_does_nothing(when: str) -> None:
    make = Requests().make
    field = "aborted" if when == "before_schedule" else "aborted_late"

    actual = play(
        config(num_blocks=7),
        [make(8, 1), make(8, 1, at=3)],
        aborts=[abort("r0", 2, when), abort("r1", 2, when)],
    )

    assert actual["steps"][2][field] == [["r0", 6], ["r1", 6]]
    assert actual["end"]["outputs"] == [["r0", 1], ["r1", 1]]


def test_the_timeline_is_done_although_an_abort_is_pending() -> None:
    actual = play(config(), [Requests().make(8, 2)], aborts=[abort("r0", 50)])

    assert (actual["end"]["kind"], len(actual["steps"])) == ("done", 2)


def test_nothing_is_a_stall_while_an_abort_is_pending() -> None:
    actual = play(config(num_blocks=4), [Requests().make(60, 1)], aborts=[abort("r0", 9)])

    assert (actual["end"]["kind"], len(actual["steps"])) == ("done", 10)

"""What happens when blocks run out. Steps count from 0 here; every number was measured on upstream 0.27.1."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.scenes import Requests, config, first_scheduled, play, steps_with


def outcome(observation: dict[str, Any]) -> tuple[str, int]:
    """How it ended, and the tokens of the first request."""
    end = observation["end"]
    return end["kind"], end["outputs"][0][1]


def test_a_sole_request_that_needs_the_null_block_preempts_itself_and_waits_for_ever() -> None:
    actual = play(config(num_blocks=4), [Requests().make(8, 56)])

    assert outcome(actual) == ("stall", 41)
    assert steps_with(actual, "preempted") == {41: ["r0"]}
    assert [step["free"] for step in actual["steps"][41:]] == [3, 3]
    assert actual["steps"][-1]["waiting"] == ["r0"]


@pytest.mark.parametrize(
    ("blocks", "prompt", "max_tokens", "expected", "preempted"),
    [
        (4, 40, 9, ("done", 9), 0),
        (4, 40, 10, ("stall", 9), 1),
        (4, 48, 1, ("done", 1), 0),
        (4, 49, 1, ("stall", 0), 0),
        (4, 40, 24, ("stall", 9), 1),
        (4, 63, 1, ("stall", 0), 0),
        (5, 40, 24, ("done", 24), 0),
        (8, 127, 1, ("stall", 0), 0),
        (8, 112, 16, ("stall", 1), 1),
        (8, 64, 64, ("stall", 49), 1),
    ],
)
def test_the_decode_wall(
    blocks: int, prompt: int, max_tokens: int, expected: tuple[str, int], preempted: int
) -> None:
    actual = play(config(num_blocks=blocks), [Requests().make(prompt, max_tokens)])

    assert outcome(actual) == expected
    assert len(steps_with(actual, "preempted")) == preempted


def test_the_younger_of_two_is_preempted_and_resumes_with_what_the_cache_kept() -> None:
    make = Requests().make

    actual = play(config(num_blocks=7), [make(34, 35), make(34, 35)])

    assert steps_with(actual, "preempted") == {15: ["r1"]}
    assert steps_with(actual, "resumed") == {35: ["r1"]}
    resumed = actual["steps"][35]
    assert resumed["cached"] == [["r1", 16]]
    assert resumed["scheduled"] == [["r1", 33]]
    assert resumed["blocks"] == [["r1", [4, 5, 6, 3]]]


def test_a_preempted_requests_block_changes_hands_in_the_same_step() -> None:
    make = Requests().make

    actual = play(config(num_blocks=7), [make(34, 35), make(34, 35)])

    before, after = (dict(actual["steps"][at]["blocks"]) for at in (14, 15))
    assert before["r1"][-1] == 6
    assert after["r0"][-1] == 6


@pytest.mark.parametrize(("blocks", "preempted"), [(11, {}), (10, {31: ["r1"]})])
def test_more_blocks_mean_a_later_preemption_or_none(blocks: int, preempted: dict[int, list[str]]) -> None:
    make = Requests().make

    actual = play(config(num_blocks=blocks), [make(34, 35), make(34, 35)])

    assert steps_with(actual, "preempted") == preempted


@pytest.mark.parametrize(("blocks", "preempted"), [(15, {}), (14, {15: ["r1"]})])
def test_two_that_fit_together_never_preempt(blocks: int, preempted: dict[int, list[str]]) -> None:
    """1 + ceil((120 + 20 - 1) / 16) + ceil((50 + 20 - 1) / 16) = 15."""
    make = Requests().make

    actual = play(config(num_blocks=blocks), [make(120, 20), make(50, 20)])

    assert steps_with(actual, "preempted") == preempted


def test_eight_requests_in_five_blocks_all_finish() -> None:
    make = Requests().make

    actual = play(config(num_blocks=6), [make(12, 16) for _ in range(8)])

    assert actual["end"] == {
        "kind": "done",
        "period": None,
        "error": None,
        "outputs": [[f"r{i}", 16] for i in range(8)],
    }
    assert len(actual["steps"]) == 54
    assert all(step["scheduled"] for step in actual["steps"])
    assert {at: sorted(who) for at, who in steps_with(actual, "preempted").items()} == {
        5: ["r2", "r3", "r4"],
        32: ["r6", "r7"],
    }


@pytest.mark.parametrize(("policy", "waiting"), [("priority", ["r2", "r1"]), ("fcfs", ["r1", "r2"])])
def test_a_preempted_request_queues_by_its_stamp_or_in_front(policy: str, waiting: list[str]) -> None:
    make = Requests().make
    requests = [make(30, 20, arrival=0), make(40, 20, arrival=2), make(20, 4, arrival=1, at=1)]

    actual = play(config(num_blocks=6, scheduling_policy=policy), requests)

    assert steps_with(actual, "preempted")[3] == ["r1"]
    assert actual["steps"][3]["waiting"] == waiting


@pytest.mark.parametrize(
    ("first", "second", "victim"),
    [
        ({"priority": 1}, {"priority": 0}, "r0"),
        ({"priority": 0}, {"priority": 1}, "r1"),
        ({"arrival": 5}, {"arrival": 1}, "r0"),
        ({"arrival": 5}, {"arrival": 5}, "r0"),
    ],
)
def test_priority_preempts_the_largest_key_and_the_first_on_a_tie(
    first: dict[str, int], second: dict[str, int], victim: str
) -> None:
    make = Requests().make
    requests = [make(34, 35, **first), make(34, 35, **second)]

    actual = play(config(num_blocks=7, scheduling_policy="priority"), requests)

    assert next(iter(steps_with(actual, "preempted").values())) == [victim]


def test_without_the_full_length_reserve_a_prefill_can_go_round_for_ever() -> None:
    """Four chunks and a preemption; the freed blocks come back in reverse, so the ids repeat every ten steps."""
    settings = config(
        num_blocks=5,
        max_model_len=80,
        max_num_batched_tokens=16,
        scheduler_reserve_full_isl=False,
        enable_prefix_caching=False,
    )

    actual = play(settings, [Requests().make(70, 4)])

    assert (actual["end"]["kind"], actual["end"]["period"]) == ("livelock", 5)
    assert actual["end"]["outputs"] == [["r0", 0]]


@pytest.mark.parametrize(
    ("reserve", "start", "preempted"),
    [(True, 44, []), (False, 5, [8, 12, 16, 20, 23])],
)
def test_admission_on_the_whole_length_or_on_the_first_chunk(
    reserve: bool, start: int, preempted: list[int]
) -> None:
    make = Requests().make
    settings = config(
        num_blocks=9,
        max_num_batched_tokens=16,
        enable_prefix_caching=False,
        scheduler_reserve_full_isl=reserve,
    )

    actual = play(settings, [make(65, 40), make(80, 4, at=5)])

    times = steps_with(actual, "preempted")
    assert first_scheduled(actual, "r1") == start
    assert list(times)[:5] == preempted
    assert len(times) == (0 if reserve else 13)
    assert len(actual["steps"]) == 52

"""Level schedule on real upstream. Steps count from 0. Numbers are measurements of 0.27.1, or arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.oracle.driver_process import Driver, request

pytestmark = pytest.mark.oracle


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with Driver() as process:
        process.ask("hello")
        yield process


def test_a_sole_request_that_needs_the_null_block_preempts_itself_and_stalls(driver: Driver) -> None:
    played = driver.play([request("r0", 8, 56)], num_blocks=4)

    assert played.outputs == {"r0": 41}  # 3 usable blocks hold 48 slots: 8 + 41 - 1
    assert played.end["kind"] == "stall"
    assert played.preempted() == [(41, "r0")]
    assert [step["scheduled"] for step in played.steps[41:]] == [[], []]
    assert played.steps[-1]["free"] == 3


def test_the_same_request_within_the_usable_blocks_is_served(driver: Driver) -> None:
    played = driver.play([request("r0", 8, 16)], num_blocks=4)

    assert played.end == {"kind": "done", "period": None, "error": None, "outputs": [["r0", 16]]}
    assert played.finished() == {"r0": (15, "length")}


def test_a_step_says_all_that_happened(driver: Driver) -> None:
    played = driver.play([request("r0", 17, 1)], num_blocks=4)

    assert played.steps == [
        {
            "aborted": [],
            "reset": [],
            "scheduled": [["r0", 17]],
            "new": ["r0"],
            "resumed": [],
            "preempted": [],
            "cached": [["r0", 0]],
            "evicted": [],
            "blocks": [["r0", [1, 2]]],
            "free": 1,
            "running": ["r0"],
            "waiting": [],
            "aborted_late": [],
            "finished": [["r0", "length", None]],
            "free_after": 3,
        }
    ]


def test_a_refused_plan_plays_nothing(driver: Driver) -> None:
    played = driver.play([request("r0", 8, 4)], num_blocks=4, max_model_len=65)

    assert played.plan["kind"] == "kv-cache-too-small"
    assert played.steps == []
    assert played.end == {"kind": "refused", "period": None, "error": None, "outputs": [["r0", 0]]}


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "kind", "tokens", "preempted"),
    [
        (40, 9, "done", 9, []),
        (40, 10, "stall", 9, [(9, "r0")]),
        (48, 1, "done", 1, []),
        (49, 1, "stall", 0, []),
    ],
)
def test_the_decode_wall_of_an_auto_fitted_length(
    driver: Driver, prompt: int, max_tokens: int, kind: str, tokens: int, preempted: list[tuple[int, str]]
) -> None:
    played = driver.play([request("r0", prompt, max_tokens)], num_blocks=4)

    assert (played.end["kind"], played.outputs["r0"], played.preempted()) == (kind, tokens, preempted)


def test_admission_on_the_first_chunk_only_thrashes(driver: Driver) -> None:
    requests = [request("R", 65, 40), request("L", 80, 4, at=5, arrival=1)]
    keys: dict[str, Any] = {"num_blocks": 9, "max_num_batched_tokens": 16, "enable_prefix_caching": False}

    whole = driver.play(requests, **keys)
    chunk = driver.play(requests, scheduler_reserve_full_isl=False, **keys)

    assert (whole.started("L"), whole.preempted()) == (44, [])
    assert [dict(chunk.steps[step]["scheduled"])["L"] for step in (5, 6, 7)] == [15, 15, 15]
    assert [step for step, _ in chunk.preempted()][:5] == [8, 12, 16, 20, 23]
    assert len(chunk.preempted()) == 13
    assert len(whole.steps) == len(chunk.steps) == 52


def test_the_younger_of_two_is_preempted_and_resumes_with_its_cached_prefix(driver: Driver) -> None:
    played = driver.play([request("a", 34, 35), request("b", 34, 35, arrival=1)], num_blocks=7)

    assert played.preempted() == [(15, "b")]
    assert played.table("b", 14) == [4, 5, 6]
    assert played.table("a", 15) == [1, 2, 3, 6]  # the freed block changes hands in the same step
    resumed = played.steps[35]
    assert (resumed["new"], resumed["resumed"]) == ([], ["b"])
    assert (resumed["cached"], resumed["scheduled"]) == ([["b", 16]], [["b", 33]])
    assert resumed["blocks"] == [["b", [4, 5, 6, 3]]]
    assert resumed["evicted"] == [3, 6]


def test_preemptions_are_listed_in_their_order(driver: Driver) -> None:
    played = driver.play([request(f"r{i}", 12, 16, arrival=i) for i in range(8)], num_blocks=6)

    assert played.preempted() == [(5, "r4"), (5, "r3"), (5, "r2"), (32, "r7"), (32, "r6")]
    assert (played.end["kind"], len(played.steps)) == ("done", 54)
    assert all(step["scheduled"] for step in played.steps)


@pytest.mark.parametrize(
    ("policy", "queue", "start"), [("fcfs", ["A", "B"], 20), ("priority", ["B", "A"], 4)]
)
def test_a_preempted_request_queues_by_the_policy(
    driver: Driver, policy: str, queue: list[str], start: int
) -> None:
    requests = [
        request("R", 30, 20, arrival=0),
        request("A", 40, 20, arrival=2),
        request("B", 20, 4, at=1, arrival=1),
    ]

    played = driver.play(requests, num_blocks=6, scheduling_policy=policy)

    assert played.preempted() == [(3, "A")]
    assert played.steps[3]["waiting"] == queue
    assert played.started("B") == start


def test_the_priority_victim_is_the_largest_priority(driver: Driver) -> None:
    requests = [
        request("x", 30, 20, priority=0, arrival=5),
        request("y", 30, 20, priority=1, arrival=0),
    ]

    assert driver.play(requests, num_blocks=6, scheduling_policy="priority").preempted() == [(3, "y")]


def test_an_evicting_request_takes_the_last_freed_blocks(driver: Driver) -> None:
    first, second = request("X", 48, 1), request("Y", 64, 1, at=2, arrival=1)
    again = request("Z", first["prompt"], 1, at=4, arrival=2)

    played = driver.play([first, second, again], num_blocks=5)

    assert played.table("Y", 2) == [4, 3, 2, 1]
    assert played.steps[2]["evicted"] == [1, 2, 3]
    assert played.cached("Z") == [0]


@pytest.mark.parametrize(
    ("max_tokens", "caching", "table"),
    [(1, True, [3, 4, 5, 6, 7, 2]), (9, True, [4, 5, 6, 7, 3, 2]), (1, False, [4, 5, 6, 7, 3, 2])],
)
def test_the_order_in_which_freed_blocks_come_back(
    driver: Driver, max_tokens: int, caching: bool, table: list[int]
) -> None:
    requests = [request("a", 40, max_tokens), request("b", 96, 1, at=12, arrival=1)]

    played = driver.play(requests, num_blocks=8, enable_prefix_caching=caching)

    assert played.table("b", 12) == table


@pytest.mark.parametrize(
    ("prompt", "answer", "cached"), [(20, 30, 48), (34, 15, 48), (34, 14, 32), (16, 16, 16)]
)
def test_a_second_turn_finds_the_generated_blocks(
    driver: Driver, prompt: int, answer: int, cached: int
) -> None:
    first = request("a", prompt, answer)
    second = request("b", first["prompt"] + first["output"] + [7, 8, 9], 1, at=answer + 1, arrival=1)

    assert driver.play([first, second]).cached("b") == [cached]


def test_prompt_logprobs_read_no_cache(driver: Driver) -> None:
    first = request("a", 39, 1)
    others = [
        request("b", first["prompt"], 1, at=2, arrival=1),
        request("c", first["prompt"], 1, at=4, arrival=2, prompt_logprobs=1),
    ]

    played = driver.play([first, *others])

    assert (played.cached("b"), played.cached("c")) == ([32], [0])
    assert played.table("c", 4) == [3, 4, 5]


def test_another_salt_is_another_prefix(driver: Driver) -> None:
    first = request("a", 39, 1, cache_salt="one")
    same = request("b", first["prompt"], 1, at=2, arrival=1, cache_salt="one")
    other = request("c", first["prompt"], 1, at=4, arrival=2, cache_salt="two")

    played = driver.play([first, same, other])

    assert (played.cached("b"), played.cached("c")) == ([32], [0])


@pytest.mark.parametrize(
    ("requests", "abort", "free"),
    [
        ([request("a", 70, 8), request("b", 60, 8, arrival=1)], ("b", 2), 1),
        ([request("a", 34, 35), request("b", 34, 35, arrival=1)], ("b", 17), 2),
    ],
    ids=["waiting", "preempted"],
)
def test_aborting_a_request_without_blocks_frees_nothing(
    driver: Driver, requests: list[dict[str, Any]], abort: tuple[str, int], free: int
) -> None:
    name, at = abort
    played = driver.play(requests, num_blocks=7, aborts=[{"id": name, "at": at, "when": "before_schedule"}])

    assert played.steps[at - 1]["free_after"] == free
    assert played.steps[at]["aborted"] == [[name, free]]
    assert played.steps[-1]["free_after"] == 6


def test_an_abort_between_schedule_and_update_wins_over_length(driver: Driver) -> None:
    aborts = [{"id": "a", "at": 3, "when": "before_update"}]

    played = driver.play([request("a", 20, 4)], num_blocks=7, aborts=aborts)

    assert played.steps[3]["aborted_late"] == [["a", 6]]
    assert (played.finished(), played.outputs) == ({}, {"a": 3})
    assert (played.end["kind"], len(played.steps)) == ("done", 4)


def test_an_abort_of_nobody_is_noted(driver: Driver) -> None:
    aborts = [{"id": "ghost", "at": 0, "when": "before_schedule"}]

    played = driver.play([request("a", 20, 2)], num_blocks=7, aborts=aborts)

    assert played.steps[0]["aborted"] == [["ghost", 6]]
    assert played.outputs == {"a": 2}


@pytest.mark.parametrize(("blocks", "preempted"), [(15, []), (14, [(15, "b")])])
def test_two_requests_within_their_blocks_are_never_preempted(
    driver: Driver, blocks: int, preempted: list[tuple[int, str]]
) -> None:
    played = driver.play([request("a", 120, 20), request("b", 50, 20, arrival=1)], num_blocks=blocks)

    assert played.preempted() == preempted


def test_a_prompt_longer_than_the_pool_is_a_livelock(driver: Driver) -> None:
    played = driver.play(
        [request("r", 70, 8)],
        num_blocks=5,
        max_num_batched_tokens=16,
        scheduler_reserve_full_isl=False,
        enable_prefix_caching=False,
    )

    # Four chunks of 16 fill 4 blocks, the fifth step preempts; with block ids kept it would be 10, as a
    # freed table comes back in reverse.
    assert (played.end["kind"], played.end["period"]) == ("livelock", 5)
    assert played.outputs == {"r": 0}


def test_a_reset_of_running_requests_preempts_and_readmits_them(driver: Driver) -> None:
    played = driver.play(
        [request("a", 20, 6), request("b", 20, 6, arrival=1)],
        num_blocks=9,
        resets=[{"at": 2, "running": False}, {"at": 3, "running": True}],
    )

    assert played.steps[2]["reset"] == [False]  # blocks are in use
    step = played.steps[3]
    assert (step["reset"], step["preempted"], step["resumed"]) == ([True], ["b", "a"], ["a", "b"])
    assert step["cached"] == [["a", 0], ["b", 0]]
    assert step["scheduled"] == [["a", 23], ["b", 23]]  # 20 prompt tokens and 3 received
    assert played.outputs == {"a": 6, "b": 6}


@pytest.mark.parametrize(
    ("keys", "tokens", "reason"),
    [
        ({"eos_token_id": 7}, 3, ["stop", None]),
        ({"eos_token_id": 7, "ignore_eos": True}, 6, ["length", None]),
        ({"stop_token_ids": [7]}, 3, ["stop", 7]),
        ({"stop_token_ids": [7], "ignore_eos": True}, 3, ["stop", 7]),
        ({"eos_token_id": 7, "min_tokens": 4}, 6, ["length", None]),
    ],
)
def test_who_stops_a_request(driver: Driver, keys: dict[str, Any], tokens: int, reason: list[Any]) -> None:
    played = driver.play([request("a", 8, 6, output=[1, 2, 7, 3, 4, 5], **keys)], num_blocks=9)

    assert played.outputs == {"a": tokens}
    assert played.steps[-1]["finished"] == [["a", *reason]]


def test_a_chunk_in_the_middle_of_a_prompt_yields_no_token(driver: Driver) -> None:
    played = driver.play([request("a", 40, 2)], max_num_batched_tokens=16, num_blocks=9)

    assert [step["scheduled"] for step in played.steps] == [[["a", 16]], [["a", 16]], [["a", 8]], [["a", 1]]]
    assert played.outputs == {"a": 2}


def test_nothing_is_a_stall_while_an_arrival_is_pending(driver: Driver) -> None:
    stuck, late = request("a", 49, 1), request("b", 8, 1, at=6, arrival=1)

    played = driver.play([stuck, late], num_blocks=4)

    # The arrival of step 6 lets its state be forgotten; steps 6 and 7 are the two equal idle ones.
    assert (played.end["kind"], len(played.steps)) == ("stall", 8)


def test_max_steps_is_a_limit(driver: Driver) -> None:
    played = driver.play([request("a", 8, 40)], num_blocks=9, max_steps=5)

    assert (played.end["kind"], len(played.steps), played.outputs) == ("limit", 5, {"a": 5})


def test_what_upstream_raises_in_a_step_is_the_ending(driver: Driver) -> None:
    bad = request("b", 8, 2, at=2, arrival=1, min_tokens=3)  # upstream refuses min_tokens above max_tokens

    played = driver.play([request("a", 8, 9), bad], num_blocks=9)

    assert len(played.steps) == 2
    assert (played.end["kind"], played.end["error"]) == ("error", "VLLMValidationError")
    assert played.outputs == {"a": 2, "b": 0}


def test_a_timeline_does_not_depend_on_those_before_it(driver: Driver) -> None:
    requests = [request("a", 34, 35), request("b", 34, 35, arrival=1)]
    first = driver.play(requests, num_blocks=7)
    driver.play([request("a", 40, 10)], num_blocks=4)

    again = driver.play(requests, num_blocks=7)

    assert (again.steps, again.plan, again.end) == (first.steps, first.plan, first.end)

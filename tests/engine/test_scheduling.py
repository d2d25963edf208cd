"""Who gets how many tokens in which step. Steps count from 0; the numbers were measured on upstream 0.27.1."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.scenes import Requests, config, first_scheduled, play, steps_with


def chunks(observation: dict[str, Any], request_id: str) -> list[int]:
    """Tokens of a request in each step that scheduled it."""
    counts = [dict(step["scheduled"]).get(request_id) for step in observation["steps"]]
    return [count for count in counts if count is not None]


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "budget"), [(1, 1, 16), (16, 1, 16), (17, 1, 16), (40, 5, 16), (33, 7, 64)]
)
def test_a_request_alone_takes_its_chunks_and_then_a_step_a_token(
    prompt: int, max_tokens: int, budget: int
) -> None:
    actual = play(config(max_num_batched_tokens=budget), [Requests().make(prompt, max_tokens)])

    assert len(actual["steps"]) == -(-prompt // budget) + max_tokens - 1
    assert actual["steps"][-1]["finished"] == [["r0", "length", None]]


def test_a_block_is_added_exactly_when_a_slot_needs_it() -> None:
    actual = play(config(), [Requests().make(15, 20)])

    sizes = [len(step["blocks"][0][1]) for step in actual["steps"]]
    assert sizes == [-(-(15 + at) // 16) for at in range(20)]


@pytest.mark.parametrize(
    ("length", "blocks", "prompt", "max_tokens", "tokens"),
    [(16, 3, 15, 1, 1), (16, 3, 15, 5, 1), (64, 6, 48, 16, 16), (64, 6, 48, 40, 16)],
)
def test_the_models_last_slot(length: int, blocks: int, prompt: int, max_tokens: int, tokens: int) -> None:
    actual = play(config(max_model_len=length, num_blocks=blocks), [Requests().make(prompt, max_tokens)])

    assert actual["end"]["outputs"] == [["r0", tokens]]
    assert actual["steps"][-1]["finished"] == [["r0", "length", None]]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"long_prefill_token_threshold": 16, "max_num_batched_tokens": 64}, [16, 16, 8]),
        (
            {
                "long_prefill_token_threshold": 16,
                "max_num_batched_tokens": 64,
                "max_model_len": 64,
                "enable_chunked_prefill": False,
            },
            [16, 16, 8],
        ),
        ({"long_prefill_token_threshold": 100, "max_num_batched_tokens": 32}, [32, 8]),
        ({"max_num_batched_tokens": 16}, [16, 16, 8]),
    ],
)
def test_budget_and_threshold_cut_a_prompt(settings: dict[str, Any], expected: list[int]) -> None:
    actual = play(config(**settings), [Requests().make(40, 1)])

    assert chunks(actual, "r0") == expected


@pytest.mark.parametrize(("threshold", "start"), [(0, 10), (8, 1)])
def test_a_long_prompt_holds_up_a_short_one_unless_a_threshold_cuts_it(threshold: int, start: int) -> None:
    make = Requests().make
    settings = config(max_num_batched_tokens=16, long_prefill_token_threshold=threshold)

    actual = play(settings, [make(160, 2), make(4, 1, at=1)])

    assert first_scheduled(actual, "r1") == start


def test_with_chunking_off_the_queue_waits_behind_a_prompt_beyond_the_budget() -> None:
    make = Requests().make
    settings = config(max_model_len=64, max_num_batched_tokens=64, enable_chunked_prefill=False)

    actual = play(settings, [make(40, 1), make(30, 1), make(4, 1)])

    assert actual["steps"][0]["scheduled"] == [["r0", 40]]
    assert actual["steps"][1]["scheduled"] == [["r1", 30], ["r2", 4]]


def test_what_does_not_fit_holds_up_what_would() -> None:
    make = Requests().make

    actual = play(config(num_blocks=9), [make(70, 8), make(64, 4, at=1), make(10, 4, at=1)])

    assert first_scheduled(actual, "r1") == 8
    assert first_scheduled(actual, "r2") == 8


def test_a_shared_prefix_lets_the_same_request_in_at_once() -> None:
    make = Requests().make
    first = make(70, 8)

    actual = play(config(num_blocks=9), [first, make(first["prompt"][:64], 4, at=1), make(10, 4, at=1)])

    assert actual["steps"][1]["new"] == ["r1", "r2"]
    assert actual["steps"][1]["cached"] == [["r1", 48], ["r2", 0]]


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_a_third_starts_in_the_step_after_the_first_end(policy: str) -> None:
    """Priority does not evict for `max_num_seqs`."""
    make = Requests().make
    settings = config(max_num_seqs=2, scheduling_policy=policy)

    actual = play(settings, [make(8, 5), make(8, 9), make(8, 1, at=1, priority=-1)])

    assert steps_with(actual, "finished")[4] == [["r0", "length", None]]
    assert first_scheduled(actual, "r2") == 5
    assert steps_with(actual, "preempted") == {}


@pytest.mark.parametrize(("watermark", "start"), [(0.0, 1), (0.5, 2)])
def test_the_watermark_keeps_blocks_free_once_something_runs(watermark: float, start: int) -> None:
    """Nine blocks: the second prompt needs four of the six left, and int(0.5 * 9) = 4 are to stay."""
    make = Requests().make
    settings = config(num_blocks=9, watermark=watermark)

    actual = play(settings, [make(32, 2), make(64, 1, at=1)])

    assert first_scheduled(actual, "r0") == 0
    assert first_scheduled(actual, "r1") == start


def test_a_prompt_beyond_the_models_length_runs_and_never_ends() -> None:
    """Fifteen tokens fill the last slot but one; then there is nothing that may be computed."""
    settings = config(max_model_len=32, num_blocks=8, max_num_batched_tokens=16)

    actual = play(settings, [Requests().make(40, 4)])

    assert chunks(actual, "r0") == [16, 15]
    assert actual["end"]["kind"] == "stall"
    assert actual["steps"][-1]["running"] == ["r0"]


def test_a_chunk_that_ends_on_the_models_length_is_the_assertion_that_upstream_has() -> None:
    """With 32 of 32 tokens computed, 32 - 32 - 1 tokens are scheduled, and the update refuses that."""
    settings = config(max_model_len=32, num_blocks=8, max_num_batched_tokens=32)

    actual = play(settings, [Requests().make(40, 4)])

    assert (actual["end"]["kind"], actual["end"]["error"]) == ("error", "AssertionError")
    assert len(actual["steps"]) == 1


def test_a_timeline_that_goes_on_is_cut_at_its_limit() -> None:
    actual = play(config(), [Requests().make(8, 20)], max_steps=5)

    assert (actual["end"]["kind"], len(actual["steps"])) == ("limit", 5)
    assert actual["end"]["outputs"] == [["r0", 5]]

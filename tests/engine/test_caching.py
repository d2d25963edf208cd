"""The prefix cache: hits, evictions, resets. The numbers were measured on upstream 0.27.1."""

from __future__ import annotations

import pytest

from tests.engine.scenes import Requests, config, first_scheduled, play, steps_with


@pytest.mark.parametrize("at", [0, 3])
@pytest.mark.parametrize(("length", "hit"), [(15, 0), (16, 0), (17, 16), (32, 16), (33, 32), (48, 32)])
def test_the_same_prompt_again_hits_all_full_blocks_but_leaves_a_token(
    length: int, hit: int, at: int
) -> None:
    """Also in one step: blocks are findable as soon as they are scheduled."""
    make = Requests().make
    first = make(length, 1)

    actual = play(config(), [first, make(first["prompt"], 1, at=at)])

    assert dict(actual["steps"][at]["cached"])["r1"] == hit


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "hit"), [(20, 30, 48), (34, 15, 48), (34, 14, 32), (16, 16, 16)]
)
def test_a_second_turn_hits_generated_blocks_but_not_the_last_token(
    prompt: int, max_tokens: int, hit: int
) -> None:
    make = Requests().make
    first = make(prompt, max_tokens)
    second = make([*first["prompt"], *first["output"], 1, 2, 3], 1, at=max_tokens + 1)

    actual = play(config(), [first, second])

    assert dict(actual["steps"][max_tokens + 1]["cached"])["r1"] == hit


def test_prompt_logprobs_read_no_cache_but_what_they_computed_stays_out_of_the_way() -> None:
    make = Requests().make
    first = make(39, 1)
    again = [
        make(first["prompt"], 1, at=at, prompt_logprobs=logprobs)
        for at, logprobs in ((1, None), (2, 1), (3, None))
    ]

    actual = play(config(), [first, *again])

    assert [step["cached"][0][1] for step in actual["steps"]] == [0, 32, 0, 32]
    assert actual["steps"][2]["blocks"] == [["r2", [3, 4, 5]]]
    assert actual["steps"][3]["blocks"][0][1][:2] == [1, 2]


def test_a_request_that_needs_the_room_evicts_tails_first() -> None:
    make = Requests().make
    x, y = make(48, 1), make(64, 1, at=1)

    actual = play(config(num_blocks=5), [x, y, make(x["prompt"], 1, at=2)])

    assert actual["steps"][1]["blocks"] == [["r1", [4, 3, 2, 1]]]
    assert actual["steps"][1]["evicted"] == [1, 2, 3]
    assert actual["steps"][2]["cached"] == [["r2", 0]]


@pytest.mark.parametrize(
    ("caching", "max_tokens", "expected"),
    [
        (True, 1, [3, 4, 5, 6, 2, 1]),
        (True, 9, [4, 5, 6, 3, 2, 1]),
        (False, 1, [4, 5, 6, 3, 2, 1]),
    ],
)
def test_the_order_in_which_freed_blocks_are_taken_again(
    caching: bool, max_tokens: int, expected: list[int]
) -> None:
    """A partial block comes first and keyed ones last; without caching all come last."""
    make = Requests().make
    settings = config(num_blocks=7, enable_prefix_caching=caching)

    actual = play(settings, [make(40, max_tokens), make(96, 1, at=max_tokens)])

    assert actual["steps"][max_tokens]["blocks"] == [["r1", expected]]


@pytest.mark.parametrize(
    ("first", "second", "hit"),
    [("a", "a", 16), ("a", "b", 0), ("a", None, 0), (None, "a", 0), ("", None, 16)],
)
def test_salts_keep_prefixes_apart(first: str | None, second: str | None, hit: int) -> None:
    make = Requests().make
    warm = make(20, 1, cache_salt=first)

    actual = play(config(), [warm, make(warm["prompt"], 1, at=1, cache_salt=second)])

    assert actual["steps"][1]["cached"] == [["r1", hit]]


def test_admission_counts_the_free_cached_blocks_that_it_would_take() -> None:
    """Six usable blocks, three held; a prompt of five with two cached and free needs all of them, one too many."""
    make = Requests().make
    warm = make(33, 1)
    holder = make(48, 6, at=1)
    long = make([*warm["prompt"][:32], *range(60_000, 60_032)], 1, at=2)

    actual = play(config(num_blocks=7), [warm, holder, long])

    assert actual["steps"][2]["waiting"] == ["r2"]
    assert first_scheduled(actual, "r2") == 7


@pytest.mark.parametrize(("running", "done"), [(False, False), (True, True)])
def test_a_reset_needs_every_block_free_or_preempts(running: bool, done: bool) -> None:
    make = Requests().make

    actual = play(config(), [make(20, 4), make(20, 4)], resets=[{"at": 2, "running": running}])

    step = actual["steps"][2]
    assert step["reset"] == [done]
    assert step["preempted"] == (["r1", "r0"] if running else [])
    assert step["resumed"] == (["r0", "r1"] if running else [])
    assert step["scheduled"] == ([["r0", 22], ["r1", 22]] if running else [["r0", 1], ["r1", 1]])
    assert [count for _, count in actual["end"]["outputs"]] == [4, 4]


def test_a_reset_forgets_what_was_cached() -> None:
    make = Requests().make
    warm = make(33, 1)

    actual = play(config(), [warm, make(warm["prompt"], 1, at=1)], resets=[{"at": 1, "running": False}])

    assert steps_with(actual, "reset") == {1: [True]}
    assert actual["steps"][1]["cached"] == [["r1", 0]]

"""Start-up arithmetic. The numbers of refusals, labels and fitted lengths are upstream 0.27.1's, measured."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from engine.block_pool import BlockPool
from tests.engine.scenes import BLOCK_BYTES, MODEL, plan

RESERVE = {"null-block-capacity": "reserve"}


def refusal(observation: dict[str, Any]) -> tuple[str, int | None]:
    """Kind and estimate of a plan that does not start."""
    assert observation["status"] == "error"
    return observation["kind"], observation["estimated_max_model_len"]


def test_a_plan_that_starts_says_everything_in_the_contracts_order() -> None:
    expected = {
        "status": "ok",
        "warnings": [],
        "bytes_per_block": BLOCK_BYTES,
        "num_blocks": 4,
        "usable_blocks": 3,
        "max_model_len": 64,
        "kv_cache_size_tokens": 64,
        "concurrency": [4, 4],
        "concurrency_label": "1.00x",
    }

    actual = plan(num_blocks=4)

    assert actual == expected
    assert list(actual) == list(expected)


def test_a_block_holds_keys_and_values_of_its_tokens_in_every_layer() -> None:
    model = MODEL | {"num_layers": 28, "num_kv_heads": 8, "head_size": 128, "max_position": 40960}

    actual = plan(model=model, dtype="bfloat16", block_size=128)

    assert actual["bytes_per_block"] == 2 * 8 * 128 * 2 * 128 * 28


@pytest.mark.parametrize("num_blocks", [1, 2, 4, 1000])
@pytest.mark.parametrize("caching", [True, False])
def test_usable_is_what_a_pool_of_that_many_blocks_has_free(num_blocks: int, caching: bool) -> None:
    actual = plan(num_blocks=num_blocks, enable_prefix_caching=caching)

    assert actual["usable_blocks"] == BlockPool(num_blocks, caching).num_free_blocks


def test_a_pool_that_no_memory_could_hold_is_planned_by_arithmetic() -> None:
    actual = plan(num_blocks=1 << 60)

    assert actual["usable_blocks"] == (1 << 60) - 1


@pytest.mark.parametrize(
    ("memory", "expected"),
    [(4 * BLOCK_BYTES, 4), (5 * BLOCK_BYTES - 1, 4), (5 * BLOCK_BYTES, 5)],
)
def test_bytes_buy_whole_blocks(memory: int, expected: int) -> None:
    actual = plan(num_blocks=None, kv_cache_memory_bytes=memory, max_model_len=64)

    assert actual["num_blocks"] == expected


def test_one_byte_less_than_the_length_needs_is_refused_with_the_length_that_fits() -> None:
    actual = plan(num_blocks=None, kv_cache_memory_bytes=4 * BLOCK_BYTES - 1, max_model_len=64)

    assert refusal(actual) == ("kv-cache-too-small", 48)


@pytest.mark.parametrize("length", [1, 16, 17, 64])
def test_the_block_count_does_not_depend_on_the_length_when_bytes_are_given(length: int) -> None:
    actual = plan(num_blocks=None, kv_cache_memory_bytes=9 * BLOCK_BYTES, max_model_len=length)

    assert actual["num_blocks"] == 9


def test_an_override_above_the_budget_is_used_all_the_same() -> None:
    actual = plan(num_blocks=12, kv_cache_memory_bytes=8 * BLOCK_BYTES)

    assert (actual["num_blocks"], actual["usable_blocks"], actual["max_model_len"]) == (12, 11, 192)


@pytest.mark.parametrize(
    ("policies", "blocks", "block_size", "expected"),
    [
        (None, 4, 16, 64),
        (None, 8, 16, 128),
        (None, 8, 128, 1024),
        (RESERVE, 4, 16, 48),
        (RESERVE, 8, 16, 112),
        (RESERVE, 8, 128, 896),
        ({"null-block-capacity": "count"}, 8, 16, 128),
        ({"null-block-capacity": "pin"}, 8, 16, 128),
    ],
)
def test_auto_fit_promises_the_null_block_unless_it_is_reserved(
    policies: dict[str, str] | None, blocks: int, block_size: int, expected: int
) -> None:
    actual = plan(policies, num_blocks=blocks, block_size=block_size)

    assert actual["max_model_len"] == expected


def test_auto_fit_stops_at_the_models_own_limit() -> None:
    assert plan(num_blocks=4000)["max_model_len"] == MODEL["max_position"]


@pytest.mark.parametrize(
    ("policies", "length", "estimate"),
    [(None, 65, 64), (RESERVE, 49, 48), (RESERVE, 64, 48)],
)
def test_four_blocks_refuse_a_longer_explicit_length(
    policies: dict[str, str] | None, length: int, estimate: int
) -> None:
    assert refusal(plan(policies, num_blocks=4, max_model_len=length)) == ("kv-cache-too-small", estimate)


@pytest.mark.parametrize(("policies", "length"), [(None, 64), (RESERVE, 48)])
def test_four_blocks_accept_the_length_of_their_estimate(
    policies: dict[str, str] | None, length: int
) -> None:
    assert plan(policies, num_blocks=4, max_model_len=length)["status"] == "ok"


@pytest.mark.parametrize(("memory", "estimate"), [(4 * BLOCK_BYTES, 48), (4 * BLOCK_BYTES - 1, 32)])
def test_reserving_takes_one_blocks_bytes_from_the_admission_check(memory: int, estimate: int) -> None:
    actual = plan(RESERVE, num_blocks=None, kv_cache_memory_bytes=memory, max_model_len=64)

    assert refusal(actual) == ("kv-cache-too-small", estimate)


def test_reserving_changes_neither_label_nor_block_count() -> None:
    actual = plan(RESERVE, num_blocks=None, kv_cache_memory_bytes=5 * BLOCK_BYTES, max_model_len=64)

    assert (actual["num_blocks"], actual["concurrency"]) == (5, [5, 4])
    assert (actual["concurrency_label"], actual["kv_cache_size_tokens"]) == ("1.25x", 80)


@pytest.mark.parametrize("policies", [None, RESERVE])
def test_four_gib_under_a_forty_thousand_token_model(policies: dict[str, str] | None) -> None:
    model = MODEL | {"num_layers": 28, "num_kv_heads": 8, "head_size": 128, "max_position": 40960}
    shape = {"model": model, "dtype": "bfloat16", "block_size": 128, "num_blocks": None}
    fitted = 37376 if policies is None else 37248

    whole = plan(policies, **shape, kv_cache_memory_bytes=4 << 30, max_model_len=40960)
    auto = plan(policies, **shape, kv_cache_memory_bytes=4 << 30)

    assert refusal(whole) == ("kv-cache-too-small", fitted)
    assert (auto["num_blocks"], auto["max_model_len"]) == (292, fitted)


@pytest.mark.parametrize(
    ("blocks", "length", "label", "size"),
    [
        (4, 64, "1.00x", 64),
        (4, 50, "1.00x", 50),
        (4, 33, "1.33x", 44),
        (4, 48, "1.33x", 64),
        (10, 100, "1.43x", 142),
        (15, 165, "1.36x", 224),
        (17, 98, "2.43x", 237),
    ],
)
def test_label_and_size_come_from_the_unrounded_binary_quotient(
    blocks: int, length: int, label: str, size: int
) -> None:
    actual = plan(num_blocks=blocks, max_model_len=length)

    assert (actual["concurrency_label"], actual["kv_cache_size_tokens"]) == (label, size)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"max_model_len": 2049}, ("max-model-len-above-model", None)),
        (
            {"enable_chunked_prefill": False, "max_num_batched_tokens": 63, "max_model_len": 64},
            ("batched-tokens-below-max-model-len", None),
        ),
        (
            {"enable_chunked_prefill": False, "max_num_batched_tokens": 2047, "num_blocks": 4},
            ("batched-tokens-below-max-model-len", None),
        ),
        ({"max_num_batched_tokens": 8}, ("batched-tokens-below-max-num-seqs", None)),
        (
            {"long_prefill_token_threshold": 65, "max_model_len": 64, "max_num_batched_tokens": 16},
            ("long-prefill-threshold-above-max-model-len", None),
        ),
        ({"num_blocks": 0}, ("cannot-auto-fit", None)),
        ({"num_blocks": 0, "max_model_len": 1}, ("no-kv-cache-memory", None)),
        (
            {"num_blocks": None, "kv_cache_memory_bytes": BLOCK_BYTES - 1, "max_model_len": 1},
            ("kv-cache-too-small", None),
        ),
    ],
)
def test_each_refusal_has_its_kind(changes: dict[str, Any], expected: tuple[str, int | None]) -> None:
    assert refusal(plan(**changes)) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"max_model_len": 2049, "max_num_batched_tokens": 1, "num_blocks": 0},
            "max-model-len-above-model",
        ),
        (
            {
                "enable_chunked_prefill": False,
                "max_num_batched_tokens": 8,
                "max_model_len": 64,
                "num_blocks": 0,
            },
            "batched-tokens-below-max-model-len",
        ),
        (
            {
                "max_num_batched_tokens": 8,
                "long_prefill_token_threshold": 65,
                "max_model_len": 64,
            },
            "batched-tokens-below-max-num-seqs",
        ),
        (
            {"long_prefill_token_threshold": 65, "max_model_len": 64, "num_blocks": 0},
            "long-prefill-threshold-above-max-model-len",
        ),
    ],
)
def test_the_first_check_that_fails_decides(changes: dict[str, Any], expected: str) -> None:
    assert plan(**changes)["kind"] == expected


@pytest.mark.parametrize(
    ("budget", "seqs", "expected"),
    [
        (200, 2, ["batched-tokens-exceed-seqs-times-len"]),
        (128, 2, []),
        (16, 16, []),
    ],
)
def test_a_budget_that_the_requests_cannot_use_is_a_warning(
    budget: int, seqs: int, expected: list[str]
) -> None:
    actual = plan(max_num_batched_tokens=budget, max_num_seqs=seqs, max_model_len=64)

    assert (actual["status"], actual["warnings"]) == ("ok", expected)


def test_a_warning_is_kept_when_a_later_check_refuses() -> None:
    expected = {
        "status": "error",
        "warnings": ["batched-tokens-exceed-seqs-times-len"],
        "kind": "long-prefill-threshold-above-max-model-len",
        "estimated_max_model_len": None,
    }

    actual = plan(
        max_num_batched_tokens=200,
        max_num_seqs=2,
        max_model_len=64,
        long_prefill_token_threshold=65,
    )

    assert actual == expected
    assert list(actual) == list(expected)


@pytest.mark.parametrize(("length", "logged"), [(64, 1), (49, 0), (50, 1)])
def test_a_length_that_cannot_be_served_is_logged_once(
    length: int, logged: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Three usable blocks hold 48 tokens; the last token of a request needs no slot."""
    with caplog.at_level(logging.WARNING, logger="nullblock.engine"):
        plan(num_blocks=4, max_model_len=length)

    assert len(caplog.records) == logged

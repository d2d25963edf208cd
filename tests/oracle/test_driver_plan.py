"""Level plan on real upstream. Numbers are measurements of 0.27.1 in public reports' terms, or arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.oracle.driver_process import OPT_125M, Driver

pytestmark = pytest.mark.oracle

# Key and value, float32, over 12 layers of 12 heads of 64, 16 tokens.
OPT_BLOCK_BYTES = 2 * 4 * 12 * 12 * 64 * 16
GROUPED_28 = {
    "name": "grouped-28",
    "num_layers": 28,
    "num_kv_heads": 8,
    "head_size": 128,
    "max_position": 40960,
    "vocab_size": 151936,
}
GROUPED_30 = {
    "name": "grouped-30",
    "num_layers": 30,
    "num_kv_heads": 3,
    "head_size": 64,
    "max_position": 8192,
    "vocab_size": 49152,
}
WIDE_BUDGET = ["batched-tokens-exceed-seqs-times-len"]  # 8192 tokens for 16 requests of at most 64


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with Driver() as process:
        process.ask("hello")
        yield process


def refusal(kind: str, estimate: int | None = None, warnings: list[str] | None = None) -> dict[str, Any]:
    return {
        "status": "error",
        "warnings": warnings or [],
        "kind": kind,
        "estimated_max_model_len": estimate,
    }


def test_auto_fit_counts_the_null_block(driver: Driver) -> None:
    assert driver.plan(num_blocks=4) == {
        "status": "ok",
        "warnings": [],
        "bytes_per_block": OPT_BLOCK_BYTES,
        "num_blocks": 4,
        "usable_blocks": 3,
        "max_model_len": 64,
        "kv_cache_size_tokens": 64,
        "concurrency": [4, 4],
        "concurrency_label": "1.00x",
    }


@pytest.mark.parametrize(("num_blocks", "block_size", "fitted"), [(8, 16, 128), (8, 128, 1024), (4, 3, 12)])
def test_an_auto_fitted_length_fills_every_block(
    driver: Driver, num_blocks: int, block_size: int, fitted: int
) -> None:
    plan = driver.plan(num_blocks=num_blocks, block_size=block_size)

    assert (plan["max_model_len"], plan["usable_blocks"]) == (fitted, num_blocks - 1)


@pytest.mark.parametrize(
    ("model", "dtype", "block_size", "num_bytes"),
    [
        (OPT_125M, "float32", 16, OPT_BLOCK_BYTES),
        (OPT_125M, "float16", 16, OPT_BLOCK_BYTES // 2),
        (GROUPED_30, "float32", 16, 2 * 4 * 30 * 3 * 64 * 16),
        (GROUPED_28, "bfloat16", 128, 2 * 2 * 28 * 8 * 128 * 128),
    ],
)
def test_a_blocks_bytes_are_those_of_the_shape(
    driver: Driver, model: dict[str, Any], dtype: str, block_size: int, num_bytes: int
) -> None:
    plan = driver.plan(model=model, dtype=dtype, block_size=block_size, num_blocks=8)

    assert plan["bytes_per_block"] == num_bytes


def test_one_byte_less_is_one_block_less(driver: Driver) -> None:
    exact = driver.plan(kv_cache_memory_bytes=4 * OPT_BLOCK_BYTES, max_model_len=64)
    less = driver.plan(kv_cache_memory_bytes=4 * OPT_BLOCK_BYTES - 1, max_model_len=64)

    assert (exact["status"], exact["num_blocks"]) == ("ok", 4)
    assert less == refusal("kv-cache-too-small", 48, WIDE_BUDGET)


@pytest.mark.parametrize(
    ("max_model_len", "outcome"),
    [(40960, ("error", 37376)), (37377, ("error", 37376)), (37376, ("ok", 292)), ("auto", ("ok", 292))],
)
def test_a_4_gib_budget_for_a_grouped_model(
    driver: Driver, max_model_len: int | str, outcome: tuple[str, int]
) -> None:
    plan = driver.plan(
        model=GROUPED_28,
        dtype="bfloat16",
        block_size=128,
        kv_cache_memory_bytes=4 << 30,
        max_model_len=max_model_len,
    )

    assert (plan["status"], plan.get("num_blocks", plan.get("estimated_max_model_len"))) == outcome


@pytest.mark.parametrize(
    ("num_blocks", "max_model_len", "label", "size", "fraction"),
    [
        (4, 64, "1.00x", 64, [4, 4]),
        (4, 50, "1.00x", 50, [4, 4]),
        (4, 33, "1.33x", 44, [4, 3]),
        (4, 48, "1.33x", 64, [4, 3]),
        (10, 100, "1.43x", 142, [10, 7]),
        (15, 165, "1.36x", 224, [15, 11]),  # 225 but for binary floating point
        (17, 98, "2.43x", 237, [17, 7]),
    ],
)
def test_the_label_and_the_size_in_tokens(
    driver: Driver, num_blocks: int, max_model_len: int, label: str, size: int, fraction: list[int]
) -> None:
    plan = driver.plan(num_blocks=num_blocks, max_model_len=max_model_len)

    assert (plan["concurrency_label"], plan["kv_cache_size_tokens"]) == (label, size)
    assert plan["concurrency"] == fraction


def test_an_override_above_the_budget_is_used(driver: Driver) -> None:
    plan = driver.plan(num_blocks=12, kv_cache_memory_bytes=8 * OPT_BLOCK_BYTES)

    assert (plan["num_blocks"], plan["max_model_len"]) == (12, 192)


def test_the_block_count_does_not_depend_on_max_model_len(driver: Driver) -> None:
    counts = {driver.plan(max_model_len=length)["num_blocks"] for length in (16, 64, 2048, "auto")}

    assert counts == {(1 << 30) // OPT_BLOCK_BYTES}


@pytest.mark.parametrize(
    ("keys", "outcome"),
    [
        ({"num_blocks": 4, "max_model_len": 65}, refusal("kv-cache-too-small", 64, WIDE_BUDGET)),
        ({"max_model_len": 2049}, refusal("max-model-len-above-model")),
        (
            {"enable_chunked_prefill": False, "max_num_batched_tokens": 1024},
            refusal("batched-tokens-below-max-model-len"),
        ),
        ({"max_num_batched_tokens": 8}, refusal("batched-tokens-below-max-num-seqs")),
        ({"long_prefill_token_threshold": 2049}, refusal("long-prefill-threshold-above-max-model-len")),
        ({"kv_cache_memory_bytes": 0, "max_model_len": 64}, refusal("no-kv-cache-memory", None, WIDE_BUDGET)),
        ({"num_blocks": 0, "max_model_len": 64}, refusal("no-kv-cache-memory", None, WIDE_BUDGET)),
        ({"kv_cache_memory_bytes": OPT_BLOCK_BYTES - 1}, refusal("cannot-auto-fit")),
    ],
)
def test_a_refusal_has_its_kind(driver: Driver, keys: dict[str, Any], outcome: dict[str, Any]) -> None:
    assert driver.plan(**keys) == outcome


@pytest.mark.parametrize(("budget", "seqs", "warnings"), [(200, 2, WIDE_BUDGET), (16, 16, []), (128, 2, [])])
def test_a_wide_token_budget_only_warns(driver: Driver, budget: int, seqs: int, warnings: list[str]) -> None:
    plan = driver.plan(max_num_batched_tokens=budget, max_num_seqs=seqs, max_model_len=64)

    assert (plan["status"], plan["warnings"]) == ("ok", warnings)


def test_a_scenario_does_not_depend_on_those_before_it(driver: Driver) -> None:
    keys: dict[str, Any] = {"num_blocks": 4, "max_model_len": 64}
    first = driver.plan(**keys)
    driver.plan(num_blocks=2)
    driver.plan(num_blocks=4, max_model_len=65)
    driver.plan(max_num_seqs=300, max_num_batched_tokens=300, enable_prefix_caching=False)

    assert driver.plan(**keys) == first
    assert driver.plan()["max_model_len"] == 2048

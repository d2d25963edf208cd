"""Every kernel gives what torch gives, whatever the sizes, alone or from several threads at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from engine.kernels import memory, team
from engine.kernels.attend import attend
from engine.kernels.memory import LINE, PAGE, Arena
from engine.kernels.product import MAX_ROWS, product
from engine.kernels.rows import rms_norm, silu_gate, turn_
from engine.kv_tensors import KVTensors
from engine.models.rotary import rotate_plainly_

pytestmark = pytest.mark.model

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
# The distance between neighbours just below 1: what one rounding may move a result by, half of it.
SPACING = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8}


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        yield


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 7, 8, 33, 97, MAX_ROWS])
@pytest.mark.parametrize(("outputs", "inputs"), [(1, 1), (3, 7), (16, 64), (65, 33), (515, 96), (960, 576)])
def test_a_product_is_that_of_float64(rows: int, outputs: int, inputs: int) -> None:
    x, weight, bias = torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.randn(outputs)

    exact = F.linear(x.double(), weight.double(), bias.double())

    # A sum of n float32 products, each below 5 * 5 here, is off by at most about n roundings of its size.
    assert float((product(x, weight, bias) - exact).abs().max()) < inputs * 25 * 2.0**-24


def test_a_product_rounds_less_than_one_sum_from_end_to_end() -> None:
    x, weight = torch.rand(8, 1536), torch.rand(64, 1536)
    exact = F.linear(x.double(), weight.double())
    running = torch.zeros(8, 64)
    for k in range(1536):
        running += x[:, k, None] * weight[None, :, k]

    ours = product(x, weight, torch.zeros(64))

    assert float((ours - exact).abs().mean()) < float((running - exact).abs().mean()) / 4


@DTYPES
@pytest.mark.parametrize(("rows", "width"), [(1, 8), (4, 96), (5, 33), (70, 576)])
def test_a_norm_is_taken_of_the_sum_which_stays(dtype: torch.dtype, rows: int, width: int) -> None:
    x, delta = torch.randn(rows, width).to(dtype), torch.randn(rows, width).to(dtype)
    weight = torch.randn(width).to(dtype)
    total = x + delta
    exact = F.rms_norm(total.double(), (width,), weight.double(), 1e-5)

    kept = x.clone()
    normed = rms_norm(kept, delta, weight, team.bits(1e-5))
    alone = rms_norm(total.clone(), None, weight, team.bits(1e-5))

    assert torch.equal(kept, total)
    assert torch.equal(normed, alone)
    assert torch.all((normed - exact).abs() <= exact.abs() * SPACING[dtype] * 4 + 1e-7)


@DTYPES
@pytest.mark.parametrize(("tokens", "heads", "size"), [(1, 1, 2), (5, 3, 16), (70, 12, 64)])
def test_heads_turn_as_both_halves_written_out(
    dtype: torch.dtype, tokens: int, heads: int, size: int
) -> None:
    rows = torch.randn(tokens, heads + 3, size).to(dtype)
    angles = torch.rand(tokens, 1, size // 2) * 6
    cos, sin = (
        torch.cat([angles.cos()] * 2, -1).to(dtype),
        torch.cat([-angles.sin(), angles.sin()], -1).to(dtype),
    )
    expected = rows.double()
    rotate_plainly_(expected[:, :heads], cos.double(), sin.double())

    turn_(rows[:, :heads], cos, sin)

    # One rounding of the result, and in float32 those of the two products.
    assert torch.all((rows - expected).abs() <= 8 * SPACING[dtype])
    assert torch.equal(rows[:, heads:].double(), expected[:, heads:])


@DTYPES
@pytest.mark.parametrize(("rows", "width"), [(1, 1), (3, 40), (65, 1536)])
def test_a_gate_is_silu_of_the_first_half_times_the_second(dtype: torch.dtype, rows: int, width: int) -> None:
    both = (torch.randn(rows, 2 * width) * 8).to(dtype)
    gate, up = both.double().chunk(2, dim=-1)
    exact = F.silu(gate) * up

    # Two roundings to the dtype, and the exponential's own.
    assert torch.all((silu_gate(both) - exact).abs() <= exact.abs() * (2 * SPACING[dtype] + 6e-7) + 1e-12)


def test_a_gate_far_from_zero_is_shut_or_open() -> None:
    both = torch.tensor([[-1e30, -200.0, -87.0, 0.0, 200.0, 1e30, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]])

    out = silu_gate(both)[0]

    assert out.isfinite().all()
    assert torch.equal(out[[0, 3]].abs(), torch.zeros(2)), "silu(-1e30) rounds to 0"
    assert abs(float(out[1])) < 1e-35
    assert torch.equal(out[4:], torch.tensor([400.0, 2e30]))


def _exact_attention(q: torch.Tensor, kv: KVTensors, table: list[int], context: int) -> torch.Tensor:
    keys, values = (part[table].flatten(0, 1)[:context].double() for part in kv.layer(1))
    repeats = q.shape[0] // keys.shape[1]
    keys, values = keys.repeat_interleave(repeats, 1), values.repeat_interleave(repeats, 1)
    weights = (torch.einsum("hd,khd->hk", q.double(), keys) * q.shape[1] ** -0.5).softmax(-1)
    return torch.einsum("hk,khd->hd", weights, values).flatten()


@DTYPES
@pytest.mark.parametrize(("heads", "kv_heads", "size"), [(1, 1, 8), (4, 4, 16), (9, 3, 64), (6, 2, 20)])
@pytest.mark.parametrize("block_size", [1, 6, 16, 40])
def test_decode_rows_attend_to_what_their_tables_say(
    dtype: torch.dtype, heads: int, kv_heads: int, size: int, block_size: int
) -> None:
    contexts = [1, block_size, block_size + 1, 3 * block_size + 2, 4 * block_size]
    kv = KVTensors(2, 40, block_size, kv_heads, size, dtype, torch.device("cpu"))
    kv.layer(1).copy_(torch.randn(2, 40, block_size, kv_heads, size) * 3)
    order = torch.randperm(40).tolist()
    tables = [[*order[i * 5 : i * 5 + -(-context // block_size)]] for i, context in enumerate(contexts)]
    padded = torch.tensor([(table + [0] * 5)[:5] for table in tables])
    rows = torch.randn(len(contexts), heads + 2, size).to(dtype)

    out = attend(rows[:, :heads], kv, 1, padded, torch.tensor(contexts))

    for i, (table, context) in enumerate(zip(tables, contexts, strict=True)):
        exact = _exact_attention(rows[i, :heads], kv, table, context)
        assert float((out[i] - exact).abs().max()) < 16 * SPACING[dtype] + 3e-6


def test_scores_far_apart_leave_only_the_largest() -> None:
    kv = KVTensors(1, 4, 4, 1, 8, torch.float32, torch.device("cpu"))
    kv.layer(0)[0] = torch.arange(16.0).view(4, 4, 1, 1) * 100  # keys grow from slot to slot
    kv.layer(0)[1] = torch.arange(16.0).view(4, 4, 1, 1)

    rising = attend(torch.ones(1, 1, 8), kv, 0, torch.tensor([[0, 1, 2, 3]]), torch.tensor([16]))
    falling = attend(-torch.ones(1, 1, 8), kv, 0, torch.tensor([[0, 1, 2, 3]]), torch.tensor([16]))

    assert torch.equal(rising, torch.full((1, 8), 15.0))
    assert torch.equal(falling, torch.zeros(1, 8))


def test_kernels_of_several_threads_do_not_meet() -> None:
    weight, bias = torch.randn(515, 96), torch.randn(515)
    inputs = [torch.randn(1 + i, 96) for i in range(12)]
    alone = [product(x, weight, bias) for x in inputs]

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda x: product(x, weight, bias), inputs))

    assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))


def test_kernels_are_for_cpus_and_two_dtypes() -> None:
    assert team.usable(torch.float32, torch.device("cpu"))
    assert team.usable(torch.bfloat16, torch.device("cpu"))
    assert not team.usable(torch.float16, torch.device("cpu"))
    assert not team.usable(torch.float32, torch.device("cuda"))


def test_weights_keys_and_values_lie_in_memory_that_may_have_large_pages() -> None:
    smaps = Path("/proc/self/smaps")
    if not smaps.exists():
        pytest.skip("the system does not tell of its pages")
    weight, kv = Arena().empty(64, 64, dtype=torch.float32), memory.zeros(64, 64, dtype=torch.bfloat16)
    areas = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) .*?^VmFlags: ([^\n]*)$", smaps.read_text(), re.M | re.S)

    for tensor in (weight, kv):
        at = tensor.data_ptr()
        flags = next(f.split() for begin, end, f in areas if int(begin, 16) <= at < int(end, 16))
        assert "hg" in flags, "the advice for huge pages is set"
        assert "sh" not in flags, "shared memory gets none"
    assert not kv.any()


def test_an_arena_keeps_tensors_apart_and_lets_nothing_move() -> None:
    arena = Arena()
    kept = [arena.empty(n, 33, dtype=torch.float32).fill_(n) for n in (1, 700, 0, 3, 1_000_000, 2)]

    assert all(bool((one == one.shape[0]).all()) for one in kept)
    assert kept[0].data_ptr() % PAGE == 0
    assert all(one.data_ptr() % LINE == 0 for one in kept if one.numel())

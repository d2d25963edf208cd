"""How a step's rows become groups, and where a token's keys and values lie."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.attention import MAX_READ_TOKENS, arrange, slots_of
from engine.kv_tensors import KVTensors
from engine.model_runner import Row

pytestmark = pytest.mark.model


def row(tokens: int, start: int) -> Row:
    return Row("r", [7] * tokens, start, list(range(1, 2 + (start + tokens) // 16)))


def test_decode_rows_come_first_then_prompts_of_one_length_then_what_continues() -> None:
    rows = [row(5, 0), row(1, 40), row(9, 16), row(5, 0), row(1, 35), row(7, 0)]

    assert arrange(rows, 16, padded=True) == [[4, 1], [0, 3], [5], [2]]


def test_a_short_decode_row_is_not_padded_to_a_long_one() -> None:
    # Contexts 10, 36 and 37: the first group takes up to 2 x 10 + 16 = 36 tokens.
    assert arrange([row(1, 36), row(1, 9), row(1, 35)], 16, padded=True) == [[1, 2], [0]]


def test_decode_rows_that_are_read_to_their_own_length_are_one_group() -> None:
    rows = [row(1, 3000), row(4, 0), row(1, 9), row(1, 70)]

    assert arrange(rows, 16, padded=False) == [[2, 3, 0], [1]]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 3000)), min_size=1, max_size=60))
def test_every_row_is_in_one_group_and_padding_is_bounded(sizes: list[tuple[int, int]]) -> None:
    rows = [row(tokens, start) for tokens, start in sizes]

    groups = arrange(rows, 16, padded=True)

    assert sorted(i for group in groups for i in group) == list(range(len(rows)))
    for group in groups:
        contexts = [rows[i].start + len(rows[i].token_ids) for i in group]
        assert len({len(rows[i].token_ids) for i in group}) == 1
        assert max(contexts) <= 2 * min(contexts) + 16
        assert len(group) == 1 or len(group) * max(contexts) <= MAX_READ_TOKENS


def test_a_token_s_slot_follows_the_block_table() -> None:
    # Positions 14..17 of a request whose first two blocks are 5 and 2: 5*16+14, 5*16+15, 2*16+0, 2*16+1
    assert list(slots_of(Row("r", [7] * 4, 14, [5, 2]), 16)) == [94, 95, 32, 33]


def test_what_is_written_to_a_slot_is_where_the_layer_s_tensor_has_it() -> None:
    kv = KVTensors(2, 4, 16, 3, 8, torch.float32, torch.device("cpu"))
    written = torch.arange(2 * 2 * 3 * 8, dtype=torch.float32).view(2, 2, 3, 8)

    kv.write(1, torch.tensor([2 * 16 + 5, 3 * 16]), written)

    layer = kv.layer(1)
    assert layer.shape == (2, 4, 16, 3, 8)
    assert torch.equal(layer[:, 2, 5], written[0])
    assert torch.equal(layer[:, 3, 0], written[1])
    assert int((layer != 0).sum()) == 2 * 2 * 3 * 8 - 1  # one written number is 0
    assert not kv.layer(0).any()
    keys, values = kv.read(1, torch.tensor([[3, 2]]))
    assert keys.shape == (1, 3, 32, 8)
    assert torch.equal(keys[0, :, 0], written[1, 0])
    assert torch.equal(values[0, :, 16 + 5], written[0, 1])

"""The runner against transformers on the same weights, however the scheduler cuts the work."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from engine.model_runner import ModelRunner, Row
from tests.engine.model.conftest import MakeRunner, Reference
from tests.engine.model.steps import Played, play

pytestmark = pytest.mark.model

TOLERANCE = 2e-4  # logits, float32
CLEAR = 1e-3  # a gap between the best two logits that rounding cannot turn around
BOTH = pytest.mark.parametrize("plain", [False, True], ids=["fast", "plain"])


def ids(seed: int, length: int) -> list[int]:
    return random.Random(seed).choices(range(5, 380), k=length)


def assert_agrees(played: Played, reference: Reference) -> None:
    """Every computed position's logits, and every token whose gap is clear."""
    for name, tokens in played.tokens.items():
        expected = reference(tokens)
        assert played.logits[name]
        for position, logits in played.logits[name]:
            difference = float((logits - expected[position]).abs().max())
            assert difference < TOLERANCE, (name, position)
        begin = len(tokens) - len(played.outputs[name])
        for i, token in enumerate(played.outputs[name]):
            best = expected[begin + i - 1].topk(2)
            if best.values[0] - best.values[1] >= CLEAR:
                assert token == int(best.indices[0]), (name, i)


def clear_prefix(tokens: list[int], prompt: int, reference: Reference) -> list[int]:
    """The generated tokens up to the first whose gap is not clear."""
    best = reference(tokens)[prompt - 1 : -1].topk(2).values
    unclear = (best[:, 0] - best[:, 1] < CLEAR).nonzero()
    return tokens[prompt:][: int(unclear[0]) if len(unclear) else None]


@BOTH
def test_a_whole_prompt_and_its_decode(make_runner: MakeRunner, reference: Reference, plain: bool) -> None:
    played = play(make_runner(plain=plain), {"a": ids(1, 41)}, 12)

    assert {position for position, _ in played.logits["a"]} == set(range(52))
    assert_agrees(played, reference)


@BOTH
def test_a_prompt_in_chunks_beside_decoding_requests(
    make_runner: MakeRunner, reference: Reference, plain: bool
) -> None:
    prompts = {"a": ids(2, 5), "b": ids(3, 61), "c": ids(4, 33)}

    played = play(make_runner(plain=plain), prompts, 10, max_num_batched_tokens=16)

    assert played.mixed_steps > 3
    assert_agrees(played, reference)


@BOTH
def test_a_cached_prefix_of_an_earlier_request(
    make_runner: MakeRunner, reference: Reference, plain: bool
) -> None:
    shared = ids(5, 40)
    prompts = {"a": shared, "b": [*shared, *ids(6, 9)]}

    played = play(make_runner(plain=plain), prompts, 6, arrive={"a": 0, "b": 3})

    assert played.cached == {"a": 0, "b": 32}
    assert min(position for position, _ in played.logits["b"]) == 32
    assert_agrees(played, reference)


@BOTH
def test_a_cached_prefix_that_is_computed_in_the_same_step(
    make_runner: MakeRunner, reference: Reference, plain: bool
) -> None:
    """The scheduler hands out a block as cached in the step that fills it."""
    shared = ids(7, 33)
    prompts = {"a": shared, "b": shared, "c": [*shared[:16], *ids(8, 20)]}

    played = play(make_runner(plain=plain), prompts, 5)

    assert played.cached == {"a": 0, "b": 32, "c": 16}
    assert_agrees(played, reference)


@BOTH
def test_decode_after_a_preemption(make_runner: MakeRunner, reference: Reference, plain: bool) -> None:
    prompts = {"a": ids(9, 34), "b": ids(10, 34)}

    played = play(make_runner(7, plain=plain), prompts, 35)

    assert played.preempted == ["b"]
    assert_agrees(played, reference)


def test_decode_rows_of_very_different_lengths(make_runner: MakeRunner, reference: Reference) -> None:
    prompts = {"a": ids(11, 1), "b": ids(12, 300), "c": ids(13, 17), "d": ids(14, 130)}

    assert_agrees(play(make_runner(), prompts, 8), reference)


def test_alone_together_and_under_preemption_the_tokens_are_the_same(
    make_runner: MakeRunner, reference: Reference
) -> None:
    prompts = {f"r{i}": ids(20 + i, 12 + i) for i in range(6)}
    together = play(make_runner(), prompts, 24)
    squeezed = play(make_runner(9), prompts, 24)
    assert squeezed.preempted
    assert not together.preempted

    for name, prompt in prompts.items():
        alone = play(make_runner(), {name: prompt}, 24).tokens[name]
        expected = clear_prefix(alone, len(prompt), reference)
        for other in (together, squeezed):
            assert other.outputs[name][: len(expected)] == expected


def test_the_plain_twin_gives_the_same_tokens(make_runner: MakeRunner, reference: Reference) -> None:
    prompts = {"a": ids(30, 20), "b": ids(31, 48), "c": ids(32, 3)}
    fast = play(make_runner(), prompts, 16, max_num_batched_tokens=32)
    plain = play(make_runner(plain=True), prompts, 16, max_num_batched_tokens=32)

    for name, prompt in prompts.items():
        expected = clear_prefix(fast.tokens[name], len(prompt), reference)
        assert plain.outputs[name][: len(expected)] == expected


@BOTH
def test_bfloat16_is_float32_but_for_rounding(
    make_runner: MakeRunner, reference: Reference, plain: bool
) -> None:
    prompt = ids(40, 50)
    expected = reference(prompt)
    runner = make_runner(dtype="bfloat16", plain=plain)

    first = runner.execute([Row("a", prompt[:30], 0, [1, 2, 3, 4], sample=False, prompt_logits=True)])
    rest = runner.execute([Row("a", prompt[30:], 30, [1, 2, 3, 4], prompt_logits=True)])

    logits = torch.cat([first.prompt["a"], rest.prompt["a"]])
    assert logits.dtype == torch.float32
    assert runner.kv.layer(0).dtype == torch.bfloat16
    assert float((logits - expected).abs().mean()) < 0.06 * float(expected.std())


def test_logits_come_in_row_order_for_the_rows_that_ask(
    make_runner: MakeRunner, reference: Reference
) -> None:
    a, b, c = ids(50, 20), ids(51, 1), ids(52, 20)

    logits = make_runner().execute(
        [
            Row("a", a, 0, [1, 2]),
            Row("b", b, 0, [3], prompt_logits=True),
            Row("no", c, 0, [4, 5], sample=False),
            Row("c", c, 0, [6, 7]),
        ]
    )

    assert logits.last.shape == (3, reference(b).shape[1])
    expected = torch.stack([reference(a)[-1], reference(b)[-1], reference(c)[-1]])
    assert float((logits.last - expected).abs().max()) < TOLERANCE
    assert list(logits.prompt) == ["b"]


def test_a_step_that_nobody_samples_from_still_fills_the_cache(
    make_runner: MakeRunner, reference: Reference
) -> None:
    runner, prompt = make_runner(), ids(53, 18)

    nothing = runner.execute([Row("a", prompt[:17], 0, [9, 3], sample=False)])
    last = runner.execute([Row("a", prompt[17:], 17, [9, 3])]).last[0]

    assert nothing.last.shape[0] == 0
    assert nothing.prompt == {}
    assert float((last - reference(prompt)[-1]).abs().max()) < TOLERANCE


@pytest.mark.parametrize("rows", [[], [Row("a", [7] * 2049, 0, list(range(1, 130)))]], ids=["none", "many"])
def test_a_step_of_a_size_that_the_runner_was_not_made_for(make_runner: MakeRunner, rows: Any) -> None:
    runner: ModelRunner = make_runner()

    with pytest.raises(AssertionError, match="a step of"):
        runner.execute(rows)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@BOTH
def test_what_a_block_s_last_owner_left_reaches_nobody(
    make_runner: MakeRunner, dtype: str, plain: bool
) -> None:
    runner = make_runner(8, dtype=dtype, plain=plain)
    rows = [Row("a", [7], 3, [1]), Row("b", [7], 12, [2])]
    runner.execute([Row("a", [5, 6, 7], 0, [1]), Row("b", [5] * 12, 0, [2])])
    expected = runner.execute(rows).last

    for layer in range(runner.shape.num_layers):
        runner.kv.layer(layer)[:, 1, 4:] = torch.nan

    assert torch.equal(runner.execute(rows).last, expected)

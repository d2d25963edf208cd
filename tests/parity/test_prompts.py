"""Lengths become ids: deterministic, apart from each other, and explicit wherever a file says so."""

from __future__ import annotations

import hashlib

import pytest

from parity.document import Fault
from parity.form import PartForm, RequestForm
from parity.prompts import MAX_TOKENS, expand, generated

VOCAB = 50272


def request(id_: str, prompt: int | list[int | PartForm], max_tokens: int = 4, **rest: object) -> RequestForm:
    return RequestForm(id=id_, prompt=prompt, max_tokens=max_tokens, **rest)  # type: ignore[arg-type]


def test_a_generated_id_is_a_blake2b_digest_of_seed_stream_and_index() -> None:
    digest = hashlib.blake2b(b"id:r0:prompt:1", digest_size=64).digest()
    ninth = 1000 + int.from_bytes(digest[:8], "big") % (VOCAB - 1000)

    assert generated("id:r0", "prompt", 8, 1, VOCAB) == [ninth]


def test_generated_ids_do_not_depend_on_how_they_are_cut() -> None:
    whole = generated("s", "prompt", 0, 40, VOCAB)

    assert generated("s", "prompt", 3, 30, VOCAB) == whole[3:33]
    assert generated("s", "prompt", 0, 0, VOCAB) == []


def test_generated_ids_leave_the_small_ids_alone_and_stay_in_the_vocabulary() -> None:
    ids = generated("s", "output", 0, 5000, 2000)

    assert min(ids) == 1000
    assert max(ids) == 1999


def test_prompts_of_different_requests_share_no_prefix_and_outputs_are_a_stream_of_their_own() -> None:
    (first, first_output), (second, _) = expand([request("a", 40, 40), request("b", 40)], VOCAB)

    assert first[0] != second[0]
    assert first[:16] != first_output[:16]


def test_equal_seeds_share_a_prefix_and_the_output() -> None:
    (short, out), (long, same) = expand([request("a", 10, seed=1), request("b", 20, seed=1)], VOCAB)

    assert long[:10] == short
    assert out == same


def test_a_forced_output_is_padded_to_max_tokens() -> None:
    ((_, output),) = expand([request("a", 2, 6, output=[7, 2])], VOCAB)

    assert output[:2] == [7, 2]
    assert output[2:] == generated("id:a", "output", 2, 4, VOCAB)


def test_parts_are_joined_in_order() -> None:
    parts: list[int | PartForm] = [
        PartForm(of="a", take=3),
        5,
        PartForm(new=2),
        PartForm(output_of="a"),
        PartForm(new=1),
    ]

    (prompt, output), (joined, _) = expand([request("a", 10, output=[7]), request("b", parts)], VOCAB)

    fresh = generated("id:b", "prompt", 0, 3, VOCAB)
    assert joined == [*prompt[:3], 5, *fresh[:2], *output, fresh[2]]


def test_a_part_may_refer_to_a_later_request() -> None:
    (first, _), (second, _) = expand([request("a", [PartForm(of="b")]), request("b", 9)], VOCAB)

    assert first == second


def test_the_output_of_a_request_may_be_part_of_its_own_prompt() -> None:
    ((prompt, output),) = expand([request("a", [PartForm(output_of="a", take=2)])], VOCAB)

    assert prompt == output[:2]


A9 = request("a", 9)


@pytest.mark.parametrize(
    ("requests", "message", "keys"),
    [
        (
            [A9, request("b", [PartForm(of="c")])],
            "no request 'c' in this file",
            ("requests", 1, "prompt", 0, "of"),
        ),
        ([request("a", [PartForm(of="a")])], "contains itself: a → a", ("requests", 0, "prompt")),
        (
            [request("a", [PartForm(of="b")]), request("b", [3, PartForm(of="a")])],
            "contains itself: a → b → a",
            ("requests", 0, "prompt"),
        ),
        (
            [A9, request("b", [PartForm(of="a", take=10)])],
            "take 10, but of 'a' has 9 ids",
            ("requests", 1, "prompt", 0, "take"),
        ),
        (
            [request("a", [PartForm(output_of="a", take=5)])],
            "take 5, but output_of 'a' has 4 ids",
            ("requests", 0, "prompt", 0, "take"),
        ),
        ([request("a", [PartForm()])], "not none", ("requests", 0, "prompt", 0)),
        ([request("a", [PartForm(new=1, of="a")])], "not of and new", ("requests", 0, "prompt", 0)),
        ([request("a", [PartForm(new=3, take=1)])], "take goes with", ("requests", 0, "prompt", 0, "take")),
        ([request("a", [4, VOCAB])], f"id {VOCAB} is outside", ("requests", 0, "prompt", 1)),
        ([request("a", 1, output=[VOCAB])], f"id {VOCAB} is outside", ("requests", 0, "output")),
        ([request("a", 1, 1, output=[7, 8])], "2 forced ids, but max_tokens is 1", ("requests", 0, "output")),
        ([request("a", MAX_TOKENS)], f"{MAX_TOKENS} token ids at most", ("requests", 0, "prompt")),
        ([request("a", 1, MAX_TOKENS + 1)], "token ids at most", ("requests", 0, "max_tokens")),
    ],
)
def test_what_cannot_be_expanded_is_a_fault_at_its_place(
    requests: list[RequestForm], message: str, keys: tuple[str | int, ...]
) -> None:
    with pytest.raises(Fault) as caught:
        expand(requests, VOCAB)

    assert message in caught.value.message
    assert caught.value.keys == keys


def test_prompts_that_double_each_other_end_at_the_limit() -> None:
    doubling = [request("r0", 1000)]
    for index in range(1, 40):
        previous = PartForm(of=f"r{index - 1}")
        doubling.append(request(f"r{index}", [previous, previous]))

    with pytest.raises(Fault, match="token ids at most"):
        expand(doubling, VOCAB)

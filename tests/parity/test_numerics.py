"""Which numbers may differ a little, and that a digest does not see them."""

from __future__ import annotations

from typing import Any

import pytest

from parity.diff import first_difference, render, split
from parity.numerics import TOLERANCE
from parity.observation import decode, digest, plain
from tests.parity.served import answer, chat_token, choice, completion, listed, serve

NEAR, FAR = TOLERANCE / 2, TOLERANCE * 2


def body(shift: float = 0.0, **changes: Any) -> Any:
    logprobs = listed((">", -1.9 + shift, {" t": -2.1}), ("(", -1.2, {"e": -3.0}))
    return completion(choice({**logprobs, **changes}, ">("))


def differs(oracle: Any, subject: Any) -> tuple[str, str] | None:
    found = first_difference(plain(serve(answer(oracle))), plain(serve(answer(subject))))
    return None if found is None else (found.path, found.kind)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_log_probability_may_differ_within_the_tolerance_and_no_further(sign: int) -> None:
    assert differs(body(), body(sign * NEAR)) is None
    assert differs(body(), body(sign * FAR)) == (
        "exchanges[0].body.choices[0].logprobs.token_logprobs[0]",
        "greater" if sign > 0 else "less",
    )


def test_a_thousandth_is_a_difference() -> None:
    assert differs(body(), body(1e-3)) is not None


def test_alternatives_are_log_probabilities_under_whatever_name() -> None:
    def of(value: float) -> Any:
        return completion(choice(listed((">", -1.0, {"rank": value})), ">"))

    assert differs(of(-2.0), of(-2.0 + NEAR)) is None
    assert differs(of(-2.0), of(-2.0 + FAR)) == (
        "exchanges[0].body.choices[0].logprobs.top_logprobs[0].rank",
        "greater",
    )


def test_chat_has_them_one_object_a_token() -> None:
    def of(value: float) -> Any:
        return {"choices": [{"index": 0, "logprobs": {"content": [chat_token("Hi", value, {})]}}]}

    assert differs(of(-2.0), of(-2.0 - NEAR)) is None
    assert differs(of(-2.0), of(-2.0 - FAR)) == (
        "exchanges[0].body.choices[0].logprobs.content[0].logprob",
        "less",
    )


def test_counts_beside_them_are_exact() -> None:
    assert differs(body(), body(text_offset=[0, 2])) == (
        "exchanges[0].body.choices[0].logprobs.text_offset[1]",
        "greater",
    )


def test_every_other_number_is_exact() -> None:
    assert differs({"temperature": 1.0}, {"temperature": 1.0 + 1e-9}) == (
        "exchanges[0].body.temperature",
        "greater",
    )


def test_an_integer_is_no_fraction_but_for_log_probabilities() -> None:
    assert differs({"created": 3}, {"created": 3.0}) == ("exchanges[0].body.created", "type")
    assert differs({"logprobs": [0]}, {"logprobs": [0.0]}) is None
    assert digest(serve(answer({"logprobs": [0]}))) == digest(serve(answer({"logprobs": [0.0]})))


def test_a_digest_does_not_depend_on_a_log_probability_and_on_everything_else() -> None:
    def of(value: Any) -> str:
        return digest(serve(answer(value)))

    assert of(body()) == of(body(0.5))
    assert of(body()) != of(body(text_offset=[0, 2]))
    assert of(body()) != of(body(tokens=[">", ")"]))
    assert of({"prompt_logprobs": [{"11": {"logprob": -3.3, "rank": 5}}]}) != of(
        {"prompt_logprobs": [{"11": {"logprob": -3.3, "rank": 6}}]}
    )
    assert of({"usage": {"total_tokens": 3}}) != of({"usage": {"total_tokens": 4}})


def test_a_digest_is_the_same_after_a_way_through_a_file() -> None:
    observation = serve(answer(body()))

    assert digest(decode("serve", plain(observation))) == digest(observation)


@pytest.mark.parametrize("key", ["a.b", "[0]", '"', "", "\\", "a\nb", " t", "日本"])
def test_a_path_with_a_token_in_it_can_be_read_back(key: str) -> None:
    path = ("exchanges", 0, "top_logprobs", 3, key, "logprob")

    assert split(render(path)) == path

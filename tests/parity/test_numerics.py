"""Which numbers may differ a little, and that a digest does not see them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parity.diff import first_difference, logprob_differences, render, split
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


@pytest.mark.parametrize(
    ("oracle", "subject", "kind"),
    [(354, 356, None), (356, 354, None), (354, 357, "greater"), (5, 6, "greater"), (20, 21, "greater"), (21, 20, "less")],
)  # fmt: skip
def test_a_rank_behind_all_that_can_be_listed_may_differ_by_two(
    oracle: int, subject: int, kind: str | None
) -> None:
    left, right = (
        {"prompt_logprobs": [None, {"11": {"logprob": -7.3, "rank": rank}}]} for rank in (oracle, subject)
    )
    found = differs(left, right)

    assert (found and found[1]) == kind


def test_no_digest_holds_a_rank_behind_all_that_can_be_listed() -> None:
    left, right = ({"prompt_logprobs": [{"11": {"logprob": -7.3, "rank": rank}}]} for rank in (21, 900))

    assert digest(serve(answer(left))) == digest(serve(answer(right)))


def test_a_digest_is_the_same_after_a_way_through_a_file() -> None:
    observation = serve(answer(body()))

    assert digest(decode("serve", plain(observation))) == digest(observation)


@pytest.mark.parametrize("key", ["a.b", "[0]", '"', "", "\\", "a\nb", " t", "日本"])
def test_a_path_with_a_token_in_it_can_be_read_back(key: str) -> None:
    path = ("exchanges", 0, "top_logprobs", 3, key, "logprob")

    assert split(render(path)) == path


@pytest.mark.parametrize(
    ("oracle", "subject", "where", "kind"),
    [
        ({"x": 0.0}, {"x": -0.0}, "x", "less"),
        ({"x": -0.0}, {"x": 0.0}, "x", "greater"),
        ({"logprobs": {"text_offset": [0]}}, {"logprobs": {"text_offset": [0.0]}}, "text_offset[0]", "type"),
        ({"logprob": -1.0, "top_logprobs": [{"rank": 1}]}, {"logprob": -1.0, "top_logprobs": [{"rank": 1.0}]}, "rank", "type"),
        ({"logprobs": {"bytes": [1, 2.5]}}, {"logprobs": {"bytes": [1.0, 2.5]}}, "bytes[0]", "type"),
    ],
)  # fmt: skip
def test_where_the_digests_differ_the_walk_finds_a_difference(
    oracle: Any, subject: Any, where: str, kind: str
) -> None:
    found = differs(oracle, subject)

    assert digest(serve(answer(oracle))) != digest(serve(answer(subject)))
    assert found is not None
    assert (found[0].endswith(where), found[1]) == (True, kind)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([-0.0, 0.0, 1.0, 0.5]) | st.just("a"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["logprobs", "rank", "token", "a"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def written_otherwise(value: Any) -> Any:
    """The same value with its integers as fractions, and its zeros below zero."""
    if isinstance(value, dict):
        return {key: written_otherwise(item) for key, item in value.items()}
    if isinstance(value, list):
        return [written_otherwise(item) for item in value]
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if is_integer else -value if value == 0 and isinstance(value, float) else value


@settings(max_examples=200, deadline=None)
@given(JSON, JSON)
def test_the_walk_and_the_digest_agree_on_what_is_equal(one: Any, other: Any) -> None:
    """Apart from log probabilities beyond the tolerance, which the walk finds and the digest does not."""
    oracle = serve(answer(one))
    for subject in (serve(answer(other)), serve(answer(written_otherwise(one))), serve(answer(one))):
        found = first_difference(plain(oracle), plain(subject))
        if digest(oracle) == digest(subject):
            assert found == next(logprob_differences(plain(oracle), plain(subject)), None)
        else:
            assert found is not None


def test_json_as_deep_as_a_client_passes_it_on_is_walked_and_digested() -> None:
    def deep(value: Any) -> Any:
        for _ in range(50):
            value = {"a": [value]}
        return value

    assert differs(deep(1), deep(2)) is not None
    assert digest(serve(answer(deep(1)))) != digest(serve(answer(deep(2))))


# Log probabilities behind another difference.


def behind(oracle: Any, subject: Any) -> list[tuple[str, str]]:
    found = logprob_differences(plain(serve(answer(oracle))), plain(serve(answer(subject))))
    return [(item.path.removeprefix("exchanges[0].body."), item.kind) for item in found]


def test_a_walk_over_log_probabilities_passes_every_other_difference_by() -> None:
    assert behind({"x": 1, **body()}, {"x": 2, "y": 3, **body()}) == []
    assert behind({"x": 1, **body()}, {"x": 2, **body(FAR)}) == [
        ("choices[0].logprobs.token_logprobs[0]", "greater"),
        ("choices[0].logprobs.top_logprobs[0].>", "greater"),
    ]  # fmt: skip


def test_what_follows_another_token_has_other_log_probabilities_by_right() -> None:
    def of(*tokens: str, value: float) -> Any:
        return completion(choice(listed(("p", -1.0, {}), *[(token, value, {}) for token in tokens])))

    assert behind(of("a", "c", value=-1.0), of("b", "c", value=-2.0)) == []
    assert len(behind(of("a", "c", value=-1.0), of("a", "d", value=-2.0))) == 2


def test_alternatives_that_are_other_tokens_are_not_held_against_each_other() -> None:
    def of(token: str) -> Any:
        entry = chat_token("p", -1.0, {token: -2.0 if token == "a" else -3.0})
        return {"choices": [{"index": 0, "logprobs": {"content": [entry]}}]}

    assert behind(of("a"), of("b")) == []

"""What is refused, with the field that upstream names; and what is put in force in place of what was asked."""

from __future__ import annotations

from typing import Any

import pytest

from engine.sampling import RequestRefused, SamplingParams

NAN, INF = float("nan"), float("inf")


def in_force(**params: Any) -> SamplingParams:
    return SamplingParams(**params).validate(vocab_size=100, max_model_len=64)


@pytest.mark.parametrize(
    ("params", "param"),
    [
        ({"n": 0}, None),
        ({"n": 16385}, None),
        ({"presence_penalty": 2.01}, None),
        ({"presence_penalty": NAN}, None),
        ({"frequency_penalty": -2.01}, None),
        ({"repetition_penalty": 0.0}, None),
        ({"repetition_penalty": INF}, None),
        ({"repetition_penalty": NAN}, None),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": 2.01}, "temperature"),
        ({"temperature": INF}, "temperature"),
        ({"temperature": NAN}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_k": -2}, None),
        ({"min_p": -0.1}, None),
        ({"min_p": 1.1}, None),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 65}, "max_tokens"),
        ({"min_tokens": -1}, None),
        ({"min_tokens": 17}, None),
        ({"logprobs": -1}, "logprobs"),
        ({"logprobs": 21}, "logprobs"),
        ({"prompt_logprobs": 21}, "prompt_logprobs"),
        ({"stop": ("a", "")}, None),
        ({"n": 2, "temperature": 0.0}, None),
        ({"logit_bias": {100: 1.0}}, "logit_bias"),
        ({"logit_bias": {-1: 1.0}}, "logit_bias"),
    ],
)
def test_refused(params: dict[str, Any], param: str | None) -> None:
    with pytest.raises(RequestRefused) as refusal:
        in_force(**params)

    assert refusal.value.param == param
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "params",
    [
        {"n": 16384},
        {"presence_penalty": -2.0, "frequency_penalty": 2.0},
        {"temperature": 2.0, "top_p": 1.0, "top_k": -1, "min_p": 1.0},
        {"max_tokens": 64, "min_tokens": 64},
        {"logprobs": 20, "prompt_logprobs": 0},
        {"logit_bias": {0: 1.0, 99: -1.0}},
    ],
)
def test_the_edges_are_accepted(params: dict[str, Any]) -> None:
    assert in_force(**params) == SamplingParams(**params)


def test_a_tiny_temperature_is_lifted_and_only_zero_is_greedy() -> None:
    assert in_force(temperature=1e-6).temperature == 0.01
    assert not in_force(temperature=1e-6).greedy
    assert in_force(temperature=0.0).greedy


def test_greedy_drops_what_could_only_matter_to_a_draw() -> None:
    params = in_force(temperature=0.0, top_p=0.5, top_k=3, min_p=0.2)

    assert (params.top_p, params.top_k, params.min_p) == (1.0, 0, 0.0)


def test_seed_minus_one_is_no_seed_and_biases_are_clamped() -> None:
    params = in_force(seed=-1, logit_bias={1: 1000.0, 2: -1000.0, 3: 5.0})

    assert params.seed is None
    assert params.logit_bias == {1: 100.0, 2: -100.0, 3: 5.0}


def test_children_differ_in_their_seed_only() -> None:
    params = SamplingParams(n=3, seed=7, top_p=0.5)

    assert [params.child(i) for i in range(3)] == [SamplingParams(seed=7 + i, top_p=0.5) for i in range(3)]
    assert SamplingParams(n=3).child(2) == SamplingParams()

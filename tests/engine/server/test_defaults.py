"""Defaults of the model and the operator, and the operator's ceiling, as upstream was measured to apply them.

Measured with --override-generation-config '{"temperature": 0.5, "max_new_tokens": 4, "top_k": 3}'.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.llm import LLM
from engine.server.params import Defaults, defaults_from
from tests.engine.server.talk import Talk, error_of


@pytest.fixture
def limited(llm: LLM) -> Iterator[Talk]:
    made = Talk(llm, defaults=Defaults(temperature=0.0, max_tokens=4, ceiling=4))
    yield made
    made.assert_idle()


def test_the_ceiling_is_below_what_a_client_asks(limited: Talk) -> None:
    assert limited.complete(max_tokens=20)["usage"]["completion_tokens"] == 4


def test_the_ceiling_is_below_the_default_of_completions(limited: Talk) -> None:
    assert limited.complete(max_tokens=None)["usage"]["completion_tokens"] == 4


def test_the_default_of_a_chat_is_the_operators(limited: Talk) -> None:
    assert limited.chat(max_tokens=None)["usage"]["completion_tokens"] == 4


def test_min_tokens_above_the_ceiling_is_refused(limited: Talk) -> None:
    response = limited.post("/v1/completions", {"prompt": [5], "max_tokens": 20, "min_tokens": 10})

    assert error_of(response) == (400, "BadRequestError", None, 400)


def test_a_default_temperature_of_0_is_greedy_and_a_client_may_choose_another(limited: Talk) -> None:
    greedy = [limited.complete(temperature=None)["choices"][0]["text"] for _ in range(3)]
    drawn = {limited.complete(temperature=2.0, seed=seed)["choices"][0]["text"] for seed in range(5)}

    assert len(set(greedy)) == 1
    assert len(drawn) > 1


def test_defaults_keep_what_nobody_changes() -> None:
    assert defaults_from({"top_k": 3}, None) == Defaults(top_k=3)


def test_a_default_of_the_wrong_type_is_an_error() -> None:
    with pytest.raises(ValueError, match="top_k"):
        defaults_from({"top_k": 0.5}, None)

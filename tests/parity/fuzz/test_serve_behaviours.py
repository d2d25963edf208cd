"""Behaviours of served scripts are read off what happened, and forms do not depend on texts, ids and numbers."""

from __future__ import annotations

from typing import Any

import pytest

from parity.fuzz.serve_behaviours import reached, states
from parity.observation import Answer, Choice, Stream
from parity.scenario import AtOnce
from tests.parity.served import answer, completion, exchange, listed, script, send, serve

CHAT = "/v1/chat/completions"


def error(kind: str, param: str | None, code: int) -> dict[str, Any]:
    return {"error": {"message": "*", "type": kind, "param": param, "code": code}}


def said(**changes: Any) -> dict[str, Any]:
    """A choice of a completion as upstream answers it."""
    return {
        "index": 0,
        "text": " a",
        "logprobs": None,
        "finish_reason": "length",
        "stop_reason": None,
        "token_ids": None,
        "prompt_logprobs": None,
        "prompt_token_ids": None,
        **changes,
    }


def of(body: Any, path: str = "/v1/completions", status: int = 200) -> frozenset[str]:
    return reached(script(send(path=path)), serve(answer(body, status=status)))


def streamed(*choices: Choice, rest: tuple[Any, ...] = ("[DONE]",), usage: str = "none") -> Answer:
    return answer(None, stream=Stream(choices=list(choices), rest=list(rest), usage=usage))


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, set()),
        ({"finish_reason": "stop", "stop_reason": "t"}, {"stopped by a string"}),
        ({"finish_reason": "stop", "stop_reason": 260}, {"stopped by a token id"}),
        ({"finish_reason": "stop", "text": ""}, {"stopped by the end of text", "no text"}),
        ({"text": "a\ufffd"}, {"half a character"}),
        ({"token_ids": [5], "prompt_token_ids": [7]}, {"token ids", "prompt token ids"}),
        ({"prompt_logprobs": [None, {"5": {"rank": 1}}]}, {"prompt log probabilities"}),
        (listed((">", -1.9, {" t": -2.1})), {"log probabilities", "alternatives"}),
        (listed(("token_id:5", -1.9, {})), {"log probabilities", "tokens as ids"}),
    ],
)
def test_what_a_choice_shows(changes: dict[str, Any], names: set[str]) -> None:
    if "tokens" in changes:
        changes = {"logprobs": changes}
    reason = changes.get("finish_reason", "length")

    found = of(completion(said(**changes)))

    assert found == names | {"completions 200", f"finish {reason}"}


def test_choices_of_one_prompt_and_of_several() -> None:
    one = completion(said(prompt_token_ids=[5]), said(index=1, prompt_token_ids=[5]))
    two = completion(said(prompt_token_ids=[5]), said(index=1, prompt_token_ids=[6]))

    assert {"several choices", "several prompts"} & of(one) == {"several choices"}
    assert {"several choices", "several prompts"} <= of(two)


def test_what_an_error_shows() -> None:
    named = of(error("Bad Request", "body.prompt.0", 400), status=400)
    unnamed = of(error("NotFoundError", None, 404), CHAT, 404)

    assert named == {
        "completions 400",
        "error Bad Request",
        "an error with a param",
        "the param of an item",
        "only errors",
    }
    assert unnamed == {"chat 404", "error NotFoundError", "an error without a param", "only errors"}


def test_what_a_stream_shows() -> None:
    joined = {"index": 0, "text": "ab", "finish_reason": "stop", "stop_reason": "b", "token_ids": [4, 5]}
    shown = streamed(Choice(0, ["tokens", "finish"], joined, None), usage="last")
    failed = streamed(rest=(error("BadRequestError", "logprobs", 400), "[DONE]"))

    assert reached(script(send()), serve(shown)) == {
        "completions 200",
        "a stream",
        "usage on the last frame",
        "finish stop",
        "stopped by a string",
        "token ids",
    }
    assert {"a stream", "an error frame", "error BadRequestError"} <= reached(script(send()), serve(failed))


def test_what_a_script_shows() -> None:
    asked = script(AtOnce([exchange("a"), exchange("b")]))
    bad, good = answer(error("Bad Request", None, 400), status=400), answer(completion(said()), "b")

    assert {"at once", "an error, then an answer", "a preemption"} <= reached(
        asked, serve(bad, good, preempted=True)
    )
    assert not {"an error, then an answer", "only errors", "a preemption"} & reached(asked, serve(good, bad))


def test_a_client_that_left_is_told() -> None:
    assert "a client left" in reached(script(send(leave_after=1)), serve(answer(None, ending="left")))


def one(body: Any) -> set[int]:
    return states(serve(answer(body)))


def test_texts_ids_and_numbers_are_no_part_of_a_form() -> None:
    assert one(completion(said(text="a", token_ids=[1, 2]))) == one(
        completion(said(text="bc", token_ids=[3]))
    )
    assert one(completion(said())) != one(completion(said(token_ids=[1])))
    assert one(completion(said())) != one(completion(said(finish_reason="stop")))
    assert one(completion(said(), said(index=1))) == one(completion(said()))
    assert states(serve(answer(completion(said())), answer(completion(said())))) == one(completion(said()))

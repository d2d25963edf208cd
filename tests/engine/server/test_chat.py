"""What chats say: templates, roles, echoes, logprobs; and the tokenizer's endpoints beside them."""

from __future__ import annotations

from typing import Any

import pytest

from engine.llm import LLM
from tests.engine.server.talk import Talk, error_of

HELLO = [{"role": "user", "content": "Hello there"}]


def message(answer: Any) -> Any:
    return answer["choices"][0]["message"]


def test_the_keys_of_a_response_are_upstreams_in_upstreams_order(talk: Talk) -> None:
    answer = talk.chat()

    assert list(answer) == ["id", "object", "created", "model", "choices", "service_tier", "system_fingerprint", "usage", "prompt_logprobs", "prompt_token_ids", "prompt_text", "kv_transfer_params", "ec_transfer_params", "metrics"]  # fmt: skip
    assert list(answer["choices"][0]) == ["index", "message", "logprobs", "finish_reason", "stop_reason", "token_ids", "routed_experts"]  # fmt: skip
    assert list(message(answer)) == [
        "role",
        "content",
        "refusal",
        "annotations",
        "audio",
        "function_call",
        "reasoning",
    ]


def test_the_prompt_is_the_template_of_the_messages(talk: Talk, llm: LLM) -> None:
    answer = talk.chat(messages=HELLO, return_prompt_text=True, return_token_ids=True)

    expected = llm.tokenizer.chat_prompt(HELLO)
    assert answer["prompt_text"] == expected
    assert answer["prompt_token_ids"] == llm.tokenizer.encode(expected, add_special_tokens=False)


def test_the_generation_prompt_can_be_left_out(talk: Talk) -> None:
    plain = talk.chat(messages=HELLO, return_prompt_text=True)["prompt_text"]

    without = talk.chat(messages=HELLO, add_generation_prompt=False, return_prompt_text=True)

    assert plain.startswith(without["prompt_text"])
    assert message(without)["role"] == "user"


def test_a_last_message_can_be_continued_and_echoed(talk: Talk) -> None:
    turns = [*HELLO, {"role": "assistant", "content": "Once"}]
    flags = {"continue_final_message": True, "add_generation_prompt": False}

    plain = talk.chat(messages=turns, **flags, return_prompt_text=True)
    echoed = talk.chat(messages=turns, **flags, echo=True)

    assert plain["prompt_text"].endswith("Once")
    assert message(echoed)["content"] == "Once" + message(plain)["content"]


def test_parts_of_text_are_lines(talk: Talk) -> None:
    parts = [{"type": "text", "text": "Hello"}, {"type": "text", "text": "there"}]

    in_parts = talk.chat(messages=[{"role": "user", "content": parts}], return_prompt_text=True)
    in_lines = talk.chat(messages=[{"role": "user", "content": "Hello\nthere"}], return_prompt_text=True)

    assert in_parts["prompt_text"] == in_lines["prompt_text"]


def test_max_completion_tokens_goes_before_max_tokens(talk: Talk) -> None:
    assert talk.chat(max_completion_tokens=2, max_tokens=5)["usage"]["completion_tokens"] == 2


def test_without_a_number_a_chat_fills_the_length(talk: Talk) -> None:
    answer = talk.chat(messages=HELLO, max_tokens=None)

    assert answer["usage"]["total_tokens"] == 64


@pytest.mark.parametrize("wanted", [0, 1, 3])
def test_logprobs_have_as_many_alternatives_as_asked(wanted: int, talk: Talk) -> None:
    tokens = talk.chat(logprobs=True, top_logprobs=wanted)["choices"][0]["logprobs"]["content"]

    assert len(tokens) == 3
    for token in tokens:
        assert len(token["top_logprobs"]) == wanted
        assert token["bytes"] == list(token["token"].encode())
        assert all(top["logprob"] <= token["logprob"] for top in token["top_logprobs"])


def test_variables_reach_the_template_and_reserved_ones_do_not(talk: Talk) -> None:
    reserved = {
        "tokenize": True,
        "messages": None,
        "add_generation_prompt": False,
        "padding": 1,
        "truncation": 2,
    }

    answer = talk.chat(messages=HELLO, chat_template_kwargs=reserved | {"free": 1}, return_prompt_text=True)

    assert answer["prompt_text"] == talk.chat(messages=HELLO, return_prompt_text=True)["prompt_text"]


def test_tools_may_stand_in_a_prompt_but_cannot_be_called(talk: Talk) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]

    talk.chat(tools=tools, tool_choice="none")

    body = {"messages": HELLO, "tools": tools}
    for extra in ({}, {"tool_choice": "auto"}, {"tool_choice": "required"}):
        assert error_of(talk.post("/v1/chat/completions", body | extra)) == (
            400,
            "BadRequestError",
            None,
            400,
        )


def test_tokenize_and_back(talk: Talk, llm: LLM) -> None:
    tokens = talk.post("/tokenize", {"prompt": "Hello there", "return_token_strs": True}).json()

    assert tokens["tokens"] == llm.tokenizer.encode("Hello there")
    assert tokens["count"] == len(tokens["tokens"]) == len(tokens["token_strs"])
    assert tokens["max_model_len"] == 64
    text = talk.post("/detokenize", {"tokens": tokens["tokens"]}).json()["prompt"]
    assert text.endswith("Hello there")


def test_tokenize_a_conversation(talk: Talk, llm: LLM) -> None:
    tokens = talk.post("/tokenize", {"messages": HELLO}).json()

    assert tokens["tokens"] == llm.tokenizer.encode(
        llm.tokenizer.chat_prompt(HELLO), add_special_tokens=False
    )
    assert tokens["token_strs"] is None


def test_tokenize_takes_messages_before_a_prompt(talk: Talk, llm: LLM) -> None:
    """As upstream does where there is a message: `serving/tokenize-both`."""
    alone = {"messages": HELLO}
    assert talk.post("/tokenize", {**alone, "prompt": "b"}).json() == talk.post("/tokenize", alone).json()
    for none in ([], [5]):
        tokens = talk.post("/tokenize", {"messages": none, "prompt": "b"}).json()["tokens"]
        assert tokens == llm.tokenizer.encode("b")


def test_tokenize_knows_no_length(talk: Talk) -> None:
    assert talk.post("/tokenize", {"prompt": "a b " * 500}).json()["count"] > 64

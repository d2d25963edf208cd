"""What upstream made of prompts and conversations at the pin: token ids, echoed texts, and what it refuses in them.

Measured on the real server with the tokenizer of `make_tiny_opt`, whose template prints role and content.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.engine.server.talk import Talk, error_of

FACTS = json.loads(Path(__file__).with_name("upstream_prompts.json").read_text(encoding="utf-8"))


def ids_of(fact: dict[str, Any], answer: dict[str, Any]) -> list[int] | None:
    if fact["path"] == "/tokenize":
        found: list[int] = answer["tokens"]
        return found
    holder = answer if "chat" in fact["path"] else answer["choices"][0]
    prompt: list[int] | None = holder["prompt_token_ids"]
    return prompt


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact["name"])
def test_reads_prompts_as_upstream_does(fact: dict[str, Any], talk: Talk) -> None:
    response = talk.post(fact["path"], fact["body"])

    if "error" in fact:
        wanted = fact["error"]
        assert error_of(response) == (fact["status"], wanted["type"], wanted["param"], wanted["code"])
        return
    assert response.status_code == 200, response.text
    assert ids_of(fact, response.json()) == fact["ids"]
    if "text" in fact:
        assert response.json()["choices"][0]["text"] == fact["text"]


def test_a_long_request_is_refused_in_the_words_that_clients_look_for(talk: Talk) -> None:
    known = "This model's maximum context length is 64 tokens."
    for prompt in ([5] * 64, "ab cd " * 30, "x" * 5000):
        response = talk.post("/v1/completions", {"prompt": prompt, "max_tokens": 3})

        assert response.status_code == 400
        assert response.json()["error"]["message"].startswith(known), response.text


def test_whole_vocabularies_are_refused_as_such(talk: Talk) -> None:
    minus_one = talk.post("/v1/completions", {"prompt": [5], "prompt_logprobs": -1})
    minus_two = talk.post("/v1/completions", {"prompt": [5], "prompt_logprobs": -2})

    assert "-1 asks for the whole vocabulary" in minus_one.json()["error"]["message"]
    assert "or -1 for the whole vocabulary" in minus_two.json()["error"]["message"]


def test_arguments_nested_too_deeply_are_the_clients_fault(talk: Talk) -> None:
    """Upstream answers 500."""
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "[" * 100_000}}
    turns = [{"role": "assistant", "content": "y", "tool_calls": [call]}]

    response = talk.post("/v1/chat/completions", {"messages": turns})

    assert error_of(response) == (400, "BadRequestError", None, 400)

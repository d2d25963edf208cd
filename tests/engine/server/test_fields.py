"""No field of upstream's two request bodies is dropped in silence."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from engine.server.fields import table
from engine.server.requests import ChatBody, CompletionBody
from oracle.interpreter import oracle_environment
from oracle.pins import load_pin
from tests.engine.server.talk import Talk, error_of
from tests.oracle.driver_process import ROOT, oracle_python

UPSTREAM = json.loads(Path(__file__).with_name("upstream_fields.json").read_text(encoding="utf-8"))
BODIES: dict[str, type[CompletionBody] | type[ChatBody]] = {
    "/v1/completions": CompletionBody,
    "/v1/chat/completions": ChatBody,
}
MINIMAL: dict[str, dict[str, Any]] = {
    "/v1/completions": {"prompt": [100, 101, 102], "max_tokens": 2},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 2},
}
ENDPOINTS = sorted(UPSTREAM)
# Values that ask for something, for each refused field.
WANTED: dict[str, Any] = {
    "allowed_token_ids": [5],
    "bad_words": ["a"],
    "chat_template": "{{ messages }}",
    "logprob_token_ids": [5],
    "prompt_embeds": "abc",
    "repetition_detection": {"max_pattern_size": 2, "min_count": 2},
    "response_format": {"type": "json_object"},
    "structured_outputs": {"regex": "a"},
    "suffix": "a",
    "thinking_token_budget": 1,
    "use_beam_search": True,
}


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_every_field_of_upstream_is_classified_and_no_other(endpoint: str) -> None:
    assert sorted(table()[endpoint]) == UPSTREAM[endpoint]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_every_field_has_a_type_here(endpoint: str) -> None:
    assert sorted(BODIES[endpoint].model_fields) == UPSTREAM[endpoint]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_what_is_not_supported_says_why(endpoint: str) -> None:
    for name, field in table()[endpoint].items():
        assert (field.why is None) == (field.status == "supported"), name


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_supported_fields_are_read_and_ignored_ones_are_not(
    endpoint: str, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body that notes who reads what, sent once whole and once as a stream."""
    read: set[str] = set()
    original = BODIES[endpoint].__getattribute__

    def noting(self: Any, name: str) -> Any:
        read.add(name)
        return original(self, name)

    monkeypatch.setattr(BODIES[endpoint], "__getattribute__", noting)
    monkeypatch.setattr(BODIES[endpoint], "given", lambda _self: {})
    for extra in ({}, {"stream": True}, {"logprobs": 1, "echo": True}, {"logprobs": True, "top_logprobs": 1}):
        talk.post(endpoint, MINIMAL[endpoint] | extra)

    for name, field in table()[endpoint].items():
        if field.status == "supported":
            assert name in read, f"{name} is said to be supported, and nobody reads it"
        elif field.status == "ignored":
            assert name not in read, f"{name} is said to be ignored, and somebody reads it"


@pytest.mark.parametrize(
    ("endpoint", "name"),
    [(e, n) for e in ENDPOINTS for n, field in sorted(table()[e].items()) if field.status == "refused"],
)
def test_a_refused_field_gets_400_unless_it_asks_for_nothing(endpoint: str, name: str, talk: Talk) -> None:
    field = table()[endpoint][name]
    needed: dict[str, Any] = {}
    if name == "logprob_token_ids":
        needed = {"logprobs": True}

    response = talk.post(endpoint, MINIMAL[endpoint] | {name: WANTED[name]} | needed)

    assert error_of(response) == (400, "BadRequestError", name if field.names_param else None, 400)
    for value in field.harmless:
        assert talk.post(endpoint, MINIMAL[endpoint] | {name: value}).status_code == 200


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_unknown_fields_are_ignored(endpoint: str, talk: Talk) -> None:
    assert talk.post(endpoint, MINIMAL[endpoint] | {"no_such_field": 1, "best_of": 2}).status_code == 200


@pytest.mark.oracle
def test_the_list_is_that_of_the_pins_own_openapi_document() -> None:
    """Upstream's request models, asked for the properties that its OpenAPI document shows."""
    program = (
        "import json;"
        "from vllm.entrypoints.openai.completion.protocol import CompletionRequest as A;"
        "from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest as B;"
        "print(json.dumps([sorted(m.model_json_schema()['properties']) for m in (A, B)]))"
    )

    printed = subprocess.run(
        [str(oracle_python()), "-c", program],
        cwd=ROOT,
        env=oracle_environment(ROOT, load_pin(ROOT)),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )

    completion, chat = json.loads(printed.stdout.splitlines()[-1])
    assert {"/v1/completions": completion, "/v1/chat/completions": chat} == UPSTREAM

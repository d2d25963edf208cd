"""What upstream answered at the pin, request by request: status, error type, param and code, endings and usage.

The facts were measured on the real server with a random two-layer OPT of 512 embeddings, 64 blocks of 16 and a
length of 64. Where this server answers differently on purpose, DELIBERATE says why.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.server.fields import table
from tests.engine.server.talk import Talk, error_of

FACTS = json.loads(Path(__file__).with_name("upstream_answers.json").read_text(encoding="utf-8"))
NAMES_NOTHING = ("suffix", "chat_template", "thinking_token_budget")
DELIBERATE = {"34-beam-stream": "beam search is refused by name, streamed or not"}


def refused_here(fact: dict[str, Any]) -> str | None:
    """The field of a request that upstream honours and this server refuses, if any."""
    fields = table().get(fact["path"], {})
    for name, value in fact["body"].items():
        field = fields.get(name)
        if (
            field is not None
            and field.status == "refused"
            and value not in field.harmless
            and name not in NAMES_NOTHING
        ):
            return name
    return None


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact["name"])
def test_answers_as_upstream_does(fact: dict[str, Any], talk: Talk) -> None:
    response = talk.post(fact["path"], fact["body"])

    name = refused_here(fact)
    if fact["name"] in DELIBERATE or (name is not None and fact["status"] in (200, 500)):
        assert name is not None
        assert error_of(response) == (400, "BadRequestError", name, 400)
    elif "error" in fact:
        expected = fact["error"]
        assert error_of(response) == (fact["status"], expected["type"], expected["param"], expected["code"])
    else:
        assert response.status_code == fact["status"], response.text


@pytest.mark.parametrize(
    "fact",
    [fact for fact in FACTS if "finish" in fact and refused_here(fact) is None],
    ids=lambda fact: fact["name"],
)
def test_ends_and_counts_as_upstream_does(fact: dict[str, Any], talk: Talk) -> None:
    answer = talk.post(fact["path"], fact["body"]).json()

    assert [choice["finish_reason"] for choice in answer["choices"]] == fact["finish"]
    if "usage" in fact:
        usage = answer["usage"]
        assert [usage["prompt_tokens"], usage["completion_tokens"]] == fact["usage"]


def test_every_deliberate_difference_is_a_measured_case() -> None:
    assert set(DELIBERATE) <= {fact["name"] for fact in FACTS}


@pytest.mark.parametrize(
    ("content", "headers", "expected"),
    [
        (b"{", {"content-type": "application/json"}, (400, "Bad Request", "body.1", 400)),
        (b"null", {"content-type": "application/json"}, (400, "Bad Request", "body", 400)),
        (b"", {"content-type": "application/json"}, (400, "Bad Request", "body", 400)),
        (b'{"prompt": "a"}', {"content-type": "text/plain"}, (400, "Bad Request", None, 400)),
        (b'{"prompt": "a"}', {}, (400, "Bad Request", None, 400)),
        (b'{"prompt": "a", "temperature": NaN}', {"content-type": "application/json"}, (400, "BadRequestError", "temperature", 400)),
        (b'{"prompt": "a", "top_p": NaN}', {"content-type": "application/json"}, (400, "BadRequestError", "top_p", 400)),
        (b'{"prompt": "a", "presence_penalty": NaN}', {"content-type": "application/json"}, (400, "BadRequestError", None, 400)),
        (b'{"prompt": "\\ud800"}', {"content-type": "application/json"}, (400, "BadRequestError", None, 400)),
        (b'{"prompt": "' + b"a" * 4_000_000 + b'"}', {"content-type": "application/json"}, (400, "BadRequestError", "input_text", 400)),
        (b'{"prompt": [5' + b",5" * 100_000 + b"]}", {"content-type": "application/json"}, (400, "BadRequestError", "input_tokens", 400)),
        (json.dumps({"prompt": ["a"] * 1025}).encode(), {"content-type": "application/json"}, (400, "BadRequestError", "prompt", 400)),
    ],
)  # fmt: skip
def test_raw_bodies(
    content: bytes, headers: dict[str, str], expected: tuple[int, str, str | None, int], talk: Talk
) -> None:
    assert error_of(talk.send("POST", "/v1/completions", content=content, headers=headers)) == expected


@pytest.mark.parametrize("content", [b"[]", b'"text"', b"7"])
def test_a_body_that_is_no_object_is_the_clients_fault(content: bytes, talk: Talk) -> None:
    """Upstream answers 500 here; a client's mistake is 400 with us."""
    response = talk.send(
        "POST", "/v1/completions", content=content, headers={"content-type": "application/json"}
    )

    assert error_of(response) == (400, "Bad Request", "body", 400)


@pytest.mark.parametrize(
    "content", [b'{"prompt": "\xff"}', b'{"prompt": ' + b"[" * 100_000, b'{"n": 1' + b"0" * 5000 + b"}"]
)
def test_bodies_that_cannot_be_parsed(content: bytes, talk: Talk) -> None:
    response = talk.send(
        "POST", "/v1/completions", content=content, headers={"content-type": "application/json"}
    )

    assert response.status_code == 400
    assert "detail" in response.json()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nope", 404),
        ("POST", "/v1/nope", 404),
        ("GET", "/", 404),
        ("GET", "/v1/models/tiny", 404),
        ("GET", "/v1/completions", 405),
        ("PUT", "/v1/completions", 405),
        ("DELETE", "/v1/models", 405),
        ("OPTIONS", "/v1/completions", 405),
        ("POST", "/health", 405),
        ("GET", "/tokenize", 405),
    ],
)
def test_unknown_routes_and_methods(method: str, path: str, status: int, talk: Talk) -> None:
    response = talk.send(method, path)

    assert response.status_code == status
    assert response.json() == {"detail": "Not Found" if status == 404 else "Method Not Allowed"}

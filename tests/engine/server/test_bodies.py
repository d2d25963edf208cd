"""Malformed and extreme bodies: never a 500, never a body that is not upstream's error shape, never a lost block."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.server.fields import table
from tests.engine.server.talk import Talk, error_of, frames

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(
        [0, -1, 1, 3, 20, 21, 63, 64, 65, 511, 512, 2**31, 2**63, 2**64, 1e308, 0.0, 2.0, "", "a"]
    )
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
PROMPTS = (
    st.text(max_size=30)
    | st.lists(st.integers(0, 520), max_size=70)
    | st.lists(st.text(max_size=10), max_size=3)
    | st.lists(st.lists(st.integers(-1, 520), max_size=6), max_size=3)
    | JSON
)
MESSAGES = (
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "role": st.sampled_from(["user", "system", "assistant", "tool", ""]) | JSON,
                "content": st.text(max_size=20) | JSON | st.lists(st.fixed_dictionaries({"type": JSON, "text": JSON}), max_size=2),
                "name": JSON,
            },
        ),
        max_size=3,
    )
    | JSON
)  # fmt: skip
SPECIAL = {"prompt": PROMPTS, "messages": MESSAGES, "n": JSON.filter(lambda n: not _many(n))}
ENDPOINTS = sorted(table())
FACTS = json.loads(Path(__file__).with_name("upstream_answers.json").read_text(encoding="utf-8"))


def _many(value: Any) -> bool:
    """More choices than a test can wait for; upstream allows 16384."""
    try:
        return abs(float(value)) > 4
    except (TypeError, ValueError, OverflowError):
        return False


def measured(endpoint: str, name: str) -> list[Any]:
    """The values of a field that upstream was measured with, good and bad."""
    return [f["body"][name] for f in FACTS if f["path"] == endpoint and name in f["body"]]


def values(endpoint: str, name: str) -> st.SearchStrategy[Any]:
    known = [value for value in measured(endpoint, name) if name != "n" or not _many(value)]
    anything = SPECIAL.get(name, JSON)
    return st.one_of(st.sampled_from(known), st.sampled_from(known), anything) if known else anything


def bodies(endpoint: str) -> st.SearchStrategy[dict[str, Any]]:
    """Bodies with a prompt or messages and a few other fields of upstream's, of any type."""
    needed = "prompt" if endpoint == "/v1/completions" else "messages"
    others = sorted(set(table()[endpoint]) - {needed})
    return st.builds(
        lambda first, rest: {needed: first} | rest,
        values(endpoint, needed),
        st.lists(st.sampled_from(others), max_size=6, unique=True).flatmap(
            lambda names: st.fixed_dictionaries({name: values(endpoint, name) for name in names})
        ),
    )


def check(talk: Talk, endpoint: str, body: Any) -> None:
    response = talk.post(endpoint, body)

    assert response.status_code < 500, (response.text, body)
    if response.status_code != 200:
        error_of(response)
    elif response.headers["content-type"].startswith("text/event-stream"):
        sent = frames(response.text)
        assert sent[-1] == "[DONE]"
        assert all("error" not in frame or frame["error"]["code"] < 500 for frame in sent[:-1]), (sent, body)
    else:
        assert response.json()["usage"]["completion_tokens"] >= 1


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_fields_of_any_type(endpoint: str, data: st.DataObject, talk: Talk) -> None:
    check(talk, endpoint, data.draw(bodies(endpoint)))


@pytest.mark.parametrize("endpoint", [*ENDPOINTS, "/tokenize", "/detokenize"])
@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(body=JSON)
def test_any_json_at_all(endpoint: str, body: Any, talk: Talk) -> None:
    response = talk.post(endpoint, body)

    assert response.status_code < 500, (response.text, body)


@settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(content=st.binary(max_size=40))
def test_any_bytes_at_all(content: bytes, talk: Talk) -> None:
    response = talk.send(
        "POST", "/v1/completions", content=content, headers={"content-type": "application/json"}
    )

    assert response.status_code < 500, response.text


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", ["model", "prompt", "request_id", "cache_salt", "user", "stop", "suffix"])
def test_half_a_character_in_any_text(name: str, stream: bool, talk: Talk) -> None:
    """JSON can write it and UTF-8 cannot, so nothing can repeat it: upstream answers 500 where it tries."""
    body = {"prompt": "a", "max_tokens": 1, "temperature": 0, "stream": stream, name: "\ud800"}
    response = talk.send(
        "POST",
        "/v1/completions",
        content=json.dumps(body).encode("ascii"),
        headers={"content-type": "application/json"},
    )

    assert response.status_code < 500, (response.text, body)
    if response.status_code != 200:
        error_of(response)
    elif stream:
        assert not [f for f in frames(response.text) if "error" in f and f["error"]["code"] >= 500]


@pytest.mark.parametrize("stop", ["\ud800", ["a", "\ud800b"]])
def test_half_a_character_to_stop_at(stop: str | list[str], talk: Talk) -> None:
    """No output could ever have it: `serving/half-a-character-inside`."""
    content = json.dumps({"prompt": "a", "max_tokens": 1, "stop": stop}).encode("ascii")
    response = talk.send(
        "POST", "/v1/completions", content=content, headers={"content-type": "application/json"}
    )

    assert error_of(response) == (400, "Bad Request", "body.stop", 400)

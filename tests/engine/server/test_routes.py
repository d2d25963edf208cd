"""The routes beside those that generate, as upstream answered them at the pin: status by method and path."""

from __future__ import annotations

import pytest

from engine.llm import LLM
from tests.engine.server.talk import Talk

MEASURED = [
    ("GET", "/health", 200), ("POST", "/health", 405), ("GET", "/health/", 307),
    ("GET", "/ping", 200), ("POST", "/ping", 200), ("HEAD", "/ping", 405), ("PUT", "/ping", 405), ("GET", "/ping/", 307),
    ("GET", "/load", 200), ("POST", "/load", 405), ("HEAD", "/load", 405),
    ("GET", "/metrics", 200), ("HEAD", "/metrics", 200), ("POST", "/metrics", 200), ("PUT", "/metrics", 200),
    ("DELETE", "/metrics", 200), ("OPTIONS", "/metrics", 200),
    ("GET", "/metrics/", 200), ("GET", "/metrics/x", 200), ("GET", "/metricsx", 200),
    ("GET", "/v1/models/", 307), ("GET", "/v1/models/tiny", 404), ("POST", "/tokenize/", 307), ("GET", "/", 404),
    ("GET", "/server_info", 404), ("GET", "/openapi.json", 200), ("GET", "/docs", 200),
]  # fmt: skip
# Upstream has these, and this server does not: see docs/server.md.
MISSING = [
    "/v1/responses", "/v1/messages", "/v1/chat/completions/batch", "/v1/completions/render",
    "/v1/chat/completions/render", "/inference/v1/generate", "/invocations",
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "status"), MEASURED)
def test_routes_answer_as_upstreams_do(method: str, path: str, status: int, talk: Talk) -> None:
    assert talk.send(method, path, follow_redirects=False).status_code == status


@pytest.mark.parametrize("path", MISSING)
def test_what_is_missing_is_not_found(path: str, talk: Talk) -> None:
    assert talk.post(path, {}).status_code == 404


def test_ping_says_what_health_says_and_load_is_not_counted(talk: Talk) -> None:
    assert talk.send("GET", "/ping").content == talk.send("GET", "/health").content == b""
    assert talk.send("GET", "/load").json() == {"server_load": 0}


def test_numbers_are_the_same_wherever_they_are_mounted(talk: Talk) -> None:
    usual, mounted = talk.send("GET", "/metrics"), talk.send("GET", "/metrics/")

    assert usual.text == mounted.text
    assert mounted.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


@pytest.mark.parametrize(("keys", "status"), [(("",), 200), ((), 200), (("", "a"), 401), (("a",), 401)])
def test_an_empty_key_is_none(keys: tuple[str, ...], status: int, llm: LLM) -> None:
    """As upstream, which drops empty keys, and guards what begins with /v1 alone."""
    talk = Talk(llm, keys=keys)

    assert talk.send("GET", "/v1/models").status_code == status
    assert talk.send("GET", "/v1/models", headers={"authorization": "Bearer "}).status_code == status
    assert talk.post("/tokenize", {"prompt": "a"}).status_code == 200

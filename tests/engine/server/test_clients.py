"""The `openai` Python client against `nullblock serve`, as its users write it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.engine.server.running import Running, running

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def server(tiny_opt: Path) -> Iterator[Running]:
    flags = (
        "--served-model-name",
        "alpha",
        "beta",
        "--api-key",
        "sesame",
        "honey",
        "--num-gpu-blocks-override",
        "64",
    )
    with running(tiny_opt, *flags) as started:
        yield started


@pytest.fixture
def client(server: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.base}/v1", api_key="sesame", max_retries=0) as made:
        yield made


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["alpha", "beta"]


def test_a_completion(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="beta", prompt="Hello", max_tokens=5, logprobs=2, n=2, seed=3)

    assert answer.model == "alpha"
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 10
    assert answer.choices[0].logprobs is not None
    assert answer.choices[0].logprobs.top_logprobs is not None
    assert len(answer.choices[0].logprobs.top_logprobs) == 5


def test_a_chat(client: openai.OpenAI) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]

    answer = client.chat.completions.create(
        model="alpha", messages=messages, max_completion_tokens=4, logprobs=True, top_logprobs=3
    )

    assert answer.choices[0].message.role == "assistant"
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert len(logprobs.content) == answer.usage.completion_tokens
    assert all(len(token.top_logprobs) == 3 for token in logprobs.content)


def test_streams(client: openai.OpenAI) -> None:
    asked = {
        "model": "alpha",
        "messages": [{"role": "user", "content": "Hello"}],
        "temperature": 0,
        "max_tokens": 6,
    }
    whole = client.chat.completions.create(**asked)

    chunks = list(
        client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    )

    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1])
    assert text == whole.choices[0].message.content
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason
    assert chunks[-1].usage == whole.usage


def test_errors(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model="alpha", prompt="Hello", max_tokens=10_000)
    assert refused.value.param == "max_tokens"
    assert refused.value.type == "BadRequestError"

    with pytest.raises(openai.NotFoundError) as unknown:
        client.completions.create(model="gamma", prompt="Hello")
    assert unknown.value.param == "model"


def test_a_second_key_is_good_and_a_wrong_one_is_not(server: Running) -> None:
    with openai.OpenAI(base_url=f"{server.base}/v1", api_key="honey", max_retries=0) as good:
        assert good.models.list().data

    with (
        openai.OpenAI(base_url=f"{server.base}/v1", api_key="wrong", max_retries=0) as bad,
        pytest.raises(openai.AuthenticationError),
    ):
        bad.models.list()


def test_what_needs_no_key(server: Running) -> None:
    with server.client() as http:
        for path in ("/health", "/version", "/metrics", "/docs", "/openapi.json"):
            assert http.get(path).status_code == 200, path
        assert http.post("/tokenize", json={"prompt": "Hello"}).status_code == 200
        for path in ("/v1/models", "/v1/no-such-route"):
            answer = http.get(path)
            assert (answer.status_code, answer.json()) == (401, {"error": "Unauthorized"})
        assert http.get("/v1/models", headers={"authorization": "bearer sesame"}).status_code == 200
        assert http.get("/v1/models", headers={"authorization": "sesame"}).status_code == 401

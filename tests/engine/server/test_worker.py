"""A long text is somebody's own affair: while it is tokenised, others are answered, and their text goes on."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx
import pytest

from engine.llm import LLM
from engine.server.worker import AT_ONCE, Worker
from engine.tokenizer import Tokenizer
from tests.engine.server.talk import SECONDS, Talk

LONG = "ab cd " * AT_ONCE
SMALL = {"prompt": [100, 101, 102], "max_tokens": 4, "temperature": 0, "ignore_eos": True, "logprobs": 1}
BODIES: list[tuple[str, dict[str, Any]]] = [
    ("/tokenize", {"prompt": LONG}),
    ("/tokenize", {"messages": [{"role": "user", "content": LONG}]}),
    ("/v1/completions", {"prompt": LONG, "truncate_prompt_tokens": 4, "max_tokens": 2}),
    ("/v1/completions", {"prompt": ["a", LONG], "truncate_prompt_tokens": 4, "max_tokens": 2}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": LONG}], "truncate_prompt_tokens": 4, "max_tokens": 2}),
]  # fmt: skip


class Gate:
    """A tokenizer's own call that waits, once it is asked for a long text, until `open` is set."""

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped
        self.entered = threading.Event()
        self.open = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    def __call__(self, text: str, **options: Any) -> Any:
        if len(text) >= len(LONG):
            self.entered.set()
            assert self.open.wait(SECONDS)
        return self._wrapped(text, **options)


@pytest.mark.parametrize(("path", "body"), BODIES, ids=lambda value: value if isinstance(value, str) else "")
def test_a_long_text_keeps_nobody_waiting(
    path: str, body: dict[str, Any], talk: Talk, llm: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(llm.tokenizer._wrapped)
    monkeypatch.setattr(llm.tokenizer, "_wrapped", gate)

    async def go() -> tuple[list[int], int]:
        transport = httpx.ASGITransport(talk.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test", timeout=SECONDS) as client:
            long = asyncio.ensure_future(client.post(path, json=body))
            try:
                assert await asyncio.to_thread(gate.entered.wait, SECONDS)
                others = [
                    await client.get("/health"),
                    await client.post("/v1/completions", json=SMALL),
                    await client.post("/v1/completions", json=SMALL | {"stream": True}),
                    await client.post("/tokenize", json={"prompt": "hello"}),
                    await client.post("/detokenize", json={"tokens": [100]}),
                ]
                assert not long.done()
            finally:
                gate.open.set()
            return [other.status_code for other in others], (await long).status_code

    assert asyncio.run(go()) == ([200] * 5, 200)


def test_what_is_small_is_done_at_once_and_the_rest_in_another_thread() -> None:
    async def go() -> tuple[int, int]:
        worker = Worker()
        return await worker.run(AT_ONCE, threading.get_ident), await worker.run(
            AT_ONCE + 1, threading.get_ident
        )

    at_once, later = asyncio.run(go())

    assert at_once == threading.get_ident() != later


def test_a_fast_tokenizer_is_shared_by_threads_without_turns(llm: LLM) -> None:
    """What would change its state is never used, so that texts can be read and written at the same time."""
    tokenizer = llm.tokenizer
    assert isinstance(tokenizer, Tokenizer)
    wanted = tokenizer.encode("hello world")
    long = threading.Thread(target=lambda: tokenizer.encode("ab cd " * 50_000, keep=3))
    long.start()
    rounds = 0
    while long.is_alive() or rounds < 10:
        assert tokenizer.encode("hello world") == wanted
        assert tokenizer.encode("hello world", keep=2) == [wanted[0], wanted[-1]]
        assert tokenizer.encode("hello world", add_special_tokens=False) == wanted[1:]
        assert tokenizer.decode(wanted[1:]) == "hello world"
        rounds += 1
    long.join()

"""What is no Exception: a panic of the tokenizer's library, a SystemExit in a callback. Nobody is left without an answer.

A thread that ended by one would leave its clients waiting for ever, and take requests that it never looks at.
"""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from engine.core import DEAD, EngineCore
from engine.detokenizer import Detokenizer
from engine.live import CoreRequest
from engine.llm import LLM
from engine.outputs import RequestOutput
from engine.sampling import SamplingParams
from engine.scheduler import Scheduler
from engine.server.app import create_app
from engine.server.flights import Flights
from engine.server.params import Defaults
from engine.server.service import describe
from tests.engine.core.fakes import SECONDS, Heard, Scene, greedy, scene

PROMPT = [3, 1, 4, 1, 5]


class Panic(BaseException):
    """As pyo3 raises for a panic in Rust."""


RAISED = [Panic("planted"), SystemExit(3), KeyboardInterrupt(), MemoryError()]


@pytest.mark.parametrize("raised", RAISED, ids=repr)
def test_a_row_that_panics_fails_alone(raised: BaseException) -> None:
    with scene() as s:
        original = s.runner.execute

        def panics(rows: list[object]) -> object:
            if any(row.request_id == "bad" for row in rows):  # type: ignore[attr-defined]
                raise raised
            return original(rows)  # type: ignore[arg-type]

        s.runner.execute = panics  # type: ignore[assignment, method-assign]
        good = s.add("good", PROMPT, max_tokens=50)
        bad = s.add("bad", [2, 7], max_tokens=50)

        assert bad.wait().reason == "error"
        assert type(raised).__name__ in str(bad.outputs[-1].error)
        assert good.wait().tokens == greedy(PROMPT, 50)
        assert s.core.alive


@pytest.mark.parametrize("raised", RAISED, ids=repr)
@pytest.mark.parametrize("where", ["schedule", "add_request", "abort"])
def test_a_panic_outside_any_request_ends_what_is_in_flight_and_nothing_else(
    where: str, raised: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scene() as s:
        running = s.add("running", PROMPT, max_tokens=1500).wait_first()
        s.runner.gate.clear()

        def panics(*_: object) -> None:
            raise raised

        monkeypatch.setattr(Scheduler, where, panics)
        late = s.add("late", PROMPT)
        if where == "abort":
            s.core.abort(["running"])
        s.runner.gate.set()

        assert running.wait().reason == "error"
        assert late.wait().reason in ("error", "length")
        monkeypatch.undo()
        assert s.add("after", PROMPT).wait().tokens == greedy(PROMPT, 4)
        assert s.core.stats().free_blocks == s.plan.usable_blocks


@pytest.mark.parametrize("raised", RAISED, ids=repr)
def test_a_sink_that_panics_loses_only_its_own_request(raised: BaseException) -> None:
    def panics(_output: RequestOutput) -> None:
        raise raised

    with scene() as s:
        params = SamplingParams(temperature=0.0, max_tokens=500, ignore_eos=True)
        s.core.add(CoreRequest("broken", tuple(PROMPT), params), panics)

        assert s.add("good", [9, 2], max_tokens=50).wait().tokens == greedy([9, 2], 50)
        assert s.core.drain(SECONDS)
        assert s.core.stats().finished["abort"] == 1


def die(s: Scene, monkeypatch: pytest.MonkeyPatch) -> list[Heard]:
    """End the thread by what it cannot survive, with a request that runs and one that has just come."""
    heard = [s.add("running", PROMPT, max_tokens=1500).wait_first()]
    s.runner.gate.clear()

    def panics(*_: object) -> None:
        raise Panic("planted")

    monkeypatch.setattr(Scheduler, "schedule", panics)
    monkeypatch.setattr(EngineCore, "_start_over", panics)
    heard.append(s.add("late", PROMPT))
    s.runner.gate.set()
    return heard


def test_whatever_ends_the_thread_everybody_is_answered_and_nobody_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with scene() as s:
        for heard in die(s, monkeypatch):
            assert (heard.wait().reason, heard.outputs[-1].error) == ("error", DEAD)

        assert not s.core.alive
        refused = s.add("after", PROMPT)
        assert (refused.wait().reason, refused.outputs[-1].error) == ("error", DEAD)
        assert s.core.drain(0)
        s.core.abort(["after"])


@pytest.fixture
def served(llm: LLM) -> Iterator[tuple[Scene, LLM]]:
    with scene() as s:
        yield s, LLM(s.core, llm.tokenizer, name="fake")


@pytest.mark.anyio
async def test_a_server_over_a_dead_engine_says_so(
    served: tuple[Scene, LLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    s, over = served
    for heard in die(s, monkeypatch):
        heard.wait()
    described = describe("fake", (), None, Defaults())
    app = create_app(described, over, Flights(over), [], {})
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://here", timeout=SECONDS) as client:
        assert (await client.get("/health")).status_code == 503
        answer = await client.post("/v1/completions", json={"prompt": PROMPT, "max_tokens": 4})
        stream = await client.post(
            "/v1/completions", json={"prompt": PROMPT, "max_tokens": 4, "stream": True}
        )

    assert (answer.status_code, answer.json()["error"]["type"]) == (500, "InternalServerError")
    assert DEAD in answer.json()["error"]["message"]
    assert '"InternalServerError"' in stream.text


def test_a_panic_where_text_is_made_is_an_error_for_its_client(
    llm: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = llm.prepare("Hello", SamplingParams(temperature=0.0, ignore_eos=True), max_tokens=8)
    push = Detokenizer.push
    panicked = []

    def panics(self: Detokenizer, token_ids: tuple[int, ...], *, stopped: bool) -> str | None:
        if not panicked:
            panicked.append(self)
            raise Panic("planted")
        return push(self, token_ids, stopped=stopped)

    monkeypatch.setattr(Detokenizer, "push", panics)
    (bad,), (good,) = llm.generate([prepared, prepared])

    assert (bad.finish_reason, good.finish_reason, len(good.token_ids)) == ("error", "length", 8)
    assert "Panic" in str(bad.error)


def test_choices_that_are_queued_end_when_a_later_one_cannot_be(
    llm: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = SamplingParams(temperature=1.0, seed=1, ignore_eos=True, n=3)
    prepared = llm.prepare("Hello", params, max_tokens=900)
    add, asked = llm.core.add, []

    def second_panics(request: CoreRequest, sink: object) -> None:
        asked.append(request)
        if len(asked) == 2:
            raise Panic("planted")
        add(request, sink)  # type: ignore[arg-type]

    monkeypatch.setattr(llm.core, "add", second_panics)
    with pytest.raises(Panic):
        llm.submit(prepared, lambda: None)

    assert llm.drain(5)
    assert llm.stats().generation_tokens < 900

"""Flights over a core that a test holds back: ends that do not depend on the engine, and a slow reader."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from engine.generation import TextOutput
from engine.llm import LLM, Prepared
from engine.sampling import SamplingParams
from engine.server import flights as module
from engine.server.errors import Refused
from engine.server.flights import Flight, Flights, joined
from engine.server.streaming import LINE_BREAKS, frame, until_gone
from tests.engine.core.fakes import Scene, scene


class Letters:
    """A tokenizer that the core's fake runner fits: one letter a token."""

    eos_token_id = None

    def detokenizer(self, _prompt: Any, params: SamplingParams) -> Any:
        from engine.detokenizer import Detokenizer

        class Stream:
            def step(self, token_id: int) -> str:
                return chr(ord("A") + token_id % 26)

        return Detokenizer(Stream(), params)


@contextmanager
def board(**changes: Any) -> Iterator[tuple[Scene, Flights]]:
    with scene(**changes) as made:
        yield made, Flights(LLM(made.core, Letters(), name="fake"))  # type: ignore[arg-type]


def asked(max_tokens: int = 4, n: int = 1) -> Prepared:
    return Prepared((1, 2, 3), SamplingParams(max_tokens=max_tokens, n=n, temperature=1, ignore_eos=True))


async def fly(flight: Flight) -> list[TextOutput]:
    async with flight:
        return [piece async for piece in flight.pieces()]


def test_choices_count_over_prompts() -> None:
    with board() as (_, flights):

        async def go() -> list[TextOutput]:
            return await fly(Flight(flights, [asked(n=2), asked(n=3)], "r"))

        pieces = asyncio.run(go())

    assert {piece.index for piece in pieces if piece.finish_reason} == {0, 1, 2, 3, 4}


def test_an_engine_that_does_not_react_cannot_hold_up_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE_SECONDS", 0.2)
    with board() as (made, flights):
        made.runner.gate.clear()

        async def go() -> list[TextOutput]:
            task = asyncio.ensure_future(fly(Flight(flights, [asked(n=2)], "r")))
            await asyncio.to_thread(made.runner.entered.wait, 10)
            flights.refuse_new()
            await flights.abort_all()
            return await asyncio.wait_for(task, 5)

        pieces = asyncio.run(go())

    assert sorted((piece.index, piece.finish_reason) for piece in pieces) == [(0, "abort"), (1, "abort")]
    assert len(flights) == 0


def test_nothing_takes_off_once_the_board_is_closed() -> None:
    with board() as (_, flights):
        flights.refuse_new()

        async def go() -> None:
            await fly(Flight(flights, [asked()], "r"))

        with pytest.raises(Refused) as refused:
            asyncio.run(go())

    assert refused.value.status == 503


def test_a_failed_choice_is_an_internal_error_and_the_others_are_aborted() -> None:
    with board() as (made, flights):
        made.runner.fails = lambda row: row.request_id.startswith("0_")

        async def go() -> None:
            await fly(Flight(flights, [asked(max_tokens=500, n=2)], "r"))

        with pytest.raises(Refused) as refused:
            asyncio.run(go())
        assert made.core.drain(10)

    assert refused.value.status == 500
    assert "poison" in refused.value.message


def test_a_flight_that_is_cancelled_gives_its_blocks_back() -> None:
    with board() as (made, flights):

        async def go() -> None:
            task = asyncio.ensure_future(fly(Flight(flights, [asked(max_tokens=900)], "r")))
            await asyncio.to_thread(made.runner.entered.wait, 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(go())
        assert made.core.drain(10)

        stats = made.core.stats()
        assert (stats.running, stats.waiting, stats.free_blocks) == (0, 0, made.plan.usable_blocks)
        assert stats.generation_tokens < 900
        assert set(stats.finished.values()) == {0}


def test_a_reader_that_is_slow_finds_everything_joined() -> None:
    with board() as (made, flights):

        async def go() -> list[TextOutput]:
            flight = Flight(flights, [asked(max_tokens=30)], "r")
            async with flight:
                assert await asyncio.to_thread(made.core.drain, 10)
                return [piece async for piece in flight.pieces()]

        (piece,) = asyncio.run(go())

    assert len(piece.token_ids) == len(piece.text) == 30
    assert piece.finish_reason == "length"


def test_joining_keeps_what_either_has() -> None:
    first = TextOutput(3, "a", (1,), prompt_logprobs=(None,), num_cached_tokens=16)
    second = TextOutput(0, "b", (2,), finish_reason="stop", stop_reason="b")

    assert joined(first, second) == TextOutput(
        3, "ab", (1, 2), None, (None,), "stop", "b", num_cached_tokens=16
    )


def test_a_client_that_leaves_cancels_the_work() -> None:
    ended: list[str] = []

    async def work() -> str:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("cancelled")
        return "never"

    async def receive() -> dict[str, str]:
        return {"type": "http.disconnect"}

    assert asyncio.run(until_gone(receive, work())) is None  # type: ignore[arg-type]
    assert ended == ["cancelled"]


@pytest.mark.parametrize("character", ["\x85", "\u2028", "\u2029", "\x1c", "\n", "\r"])
def test_no_character_of_a_text_breaks_a_frame_into_lines(character: str) -> None:
    sent = frame({"text": f"a{character}b"}).decode()

    assert len(sent.splitlines()) == 2  # the data, and the blank line that ends the frame
    assert len(LINE_BREAKS) == 3

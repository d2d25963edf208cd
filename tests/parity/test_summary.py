"""Outcomes in words."""

from __future__ import annotations

from typing import Any

import pytest

from parity.observation import Observation, PlanError
from parity.summary import MAX_CHARACTERS, ending_of, summarise
from tests.parity.served import answer, choice, completion, ended, folded, lost, serve, stopped, streamed
from tests.records.miniature import FIRST, empty_step, plan, schedule

ERROR = {"error": {"type": "InternalServerError"}}


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (answer(completion(choice(reason="abort"))), "200 abort"),
        (answer(completion(choice(), choice(), choice(reason="stop"))), "200 length stop"),
        (answer(ERROR, status=500), "500 InternalServerError"),
        (answer("Not Found", status=404), "404"),
        (answer(None, stream=streamed(folded(reason="stop"))), "stream 200 stop"),
        (
            answer(None, stream=streamed(folded(), rest=[ERROR, "[DONE]"])),
            "stream 200 length InternalServerError",
        ),
        (lost("unanswered"), "unanswered"),
    ],
)
def test_how_an_exchange_ended(one: Any, words: str) -> None:
    assert ending_of(one) == words


@pytest.mark.parametrize(
    ("observation", "words"),
    [
        (
            stopped(lost("unanswered", "stuck"), ended=ended("alive", None)),
            "stuck: unanswered; process alive",
        ),
        (
            stopped(lost("broken"), ended=ended(orphans=2)),
            "a: broken; process exited 0, processes of its left",
        ),
        (serve(lost("silent", "a"), lost("left", "b"), lost("silent", "c")), "a, c: silent; b: left"),
        (serve(*[lost("silent", str(number)) for number in range(20)]), "20 exchanges: silent"),
        (schedule(FIRST, empty_step(), end="stall"), "stall"),
        (plan(), "ok"),
        (PlanError([], "kv-cache-too-small", 48), "kv-cache-too-small"),
    ],
)
def test_an_observation_in_a_few_words(observation: Observation, words: str) -> None:
    assert summarise(observation) == words


def test_words_are_few() -> None:
    names = [f"a-rather-long-name-{number:03}" for number in range(60)]
    endings = ["silent", "left", "broken", "refused", "unanswered"]
    many = serve(*[lost(endings[at % 5], f"{name}-{'x' * 40}") for at, name in enumerate(names[:15])])

    assert len(summarise(many)) == MAX_CHARACTERS

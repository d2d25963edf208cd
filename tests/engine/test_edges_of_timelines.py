"""Edges of what the engine's driver notes that no observation of the suite comes to."""

from __future__ import annotations

from typing import Any

import pytest

from engine import timeline
from tests.engine.scenes import Requests, config, play, steps_with


def test_an_engine_that_cannot_be_built_gave_nobody_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(timeline, "Scheduler", refuse)
    make = Requests().make

    observation = play(config(), [make(8, 2), make(8, 2)])

    assert observation["steps"] == []
    assert observation["end"]["outputs"] == [["r0", 0], ["r1", 0]]
    assert (observation["end"]["kind"], observation["end"]["error"]) == ("error", "ZeroDivisionError")


def test_evicted_blocks_ascend_however_they_got_their_keys() -> None:
    """Two usable blocks: each request frees its table's tail first, so every other one is keyed from the higher id down."""
    make = Requests().make

    observation = play(config(num_blocks=3), [make(32, 1, at=at) for at in range(3)])

    assert [step["blocks"][0][1] for step in observation["steps"]] == [[1, 2], [2, 1], [1, 2]]
    assert steps_with(observation, "evicted") == {1: [1, 2], 2: [1, 2]}

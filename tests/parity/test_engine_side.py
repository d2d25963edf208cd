"""The engine as a side: what it raises is an observation, what it never ends is a failure, and it is not asked for ever."""

from __future__ import annotations

import time
from typing import Any

import pytest

from engine.block_pool import BlockPool
from parity.engine_side import EngineSide
from parity.observation import PlanOk, Schedule
from parity.root import CODE_ROOT
from parity.scenario import Scenario
from parity.suite import load_suite, select


@pytest.fixture
def wedge() -> Scenario:
    return select(load_suite(CODE_ROOT), ["preemption/sole-request-outgrows-pool"])[0].scenario


def play(side: EngineSide, scenario: Scenario) -> Any:
    side.begin(scenario)
    return side.finish()


def test_a_plan_under_a_policy() -> None:
    plan = select(load_suite(CODE_ROOT), ["auto-fit/null-block"])[0].scenario

    play_ = play(EngineSide({"null-block-capacity": "reserve"}), plan)

    assert isinstance(play_.observation, PlanOk)
    assert play_.observation.max_model_len == 48


def test_an_exception_in_a_step_is_an_observation(wedge: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_self: BlockPool, _count: int) -> list[int]:
        raise ZeroDivisionError

    monkeypatch.setattr(BlockPool, "take", broken)

    observation = play(EngineSide(), wedge).observation

    assert isinstance(observation, Schedule)
    assert (observation.end.kind, observation.end.error) == ("error", "ZeroDivisionError")
    assert observation.steps == []


def test_an_exception_before_the_first_step_is_one_as_well(
    wedge: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("engine.scheduler.KVManager", broken)

    observation = play(EngineSide(), wedge).observation

    assert isinstance(observation, Schedule)
    assert (observation.end.kind, observation.end.error) == ("error", "ZeroDivisionError")
    assert observation.end.outputs == [("r0", 0)]


def test_a_hang_is_bounded_and_an_engine_that_hangs_is_waited_for_less_but_asked_again(
    wedge: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(_self: BlockPool, _count: int) -> list[int]:
        while True:
            time.sleep(0.01)

    monkeypatch.setattr("parity.engine_side.HASTY_SECONDS", 0.1)
    side = EngineSide(seconds=0.5)
    with monkeypatch.context() as patch:
        patch.setattr(BlockPool, "take", endless)
        failures = [play(side, wedge).failure for _ in range(3)]

    assert failures == ["no end within 0.5 s", "no end within 0.5 s", "no end within 0.1 s"]
    assert isinstance(play(side, wedge).observation, Schedule)

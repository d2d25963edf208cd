"""Subjects with one vice each in what they do: they speak the protocol as they should."""

from __future__ import annotations

from typing import Any

import engine.capacity
import engine.timeline
from engine.block_pool import BlockPool
from engine.ending import Watch
from engine.scheduler import Scheduler
from parity.subjects.ignoring import IGNORING
from tests.parity.zoo.honest import Honest, Message

# ruff: noqa: ARG005 - a hook has the arguments of the one that it stands for


def _plant(owner: Any, name: str, value: object) -> None:
    """This process is the vice's own: nothing is put back."""
    assert hasattr(owner, name), name
    setattr(owner, name, value)


def _uncheck() -> None:
    """The engine counts its blocks after each step, and would end where they do not add up."""
    _plant(engine.timeline, "check_integrity", lambda scheduler: None)


class OneBlockTooMany(Honest):
    """Hands out the null block as well, in the plan and in the pool."""

    def __init__(self) -> None:
        super().__init__()
        made = BlockPool.__init__

        def with_null_block(pool: BlockPool, num_blocks: int, enable_caching: bool) -> None:
            made(pool, num_blocks, enable_caching)
            pool.free[0] = None

        _uncheck()
        _plant(BlockPool, "__init__", with_null_block)
        _plant(engine.capacity, "usable_blocks", lambda num_blocks: num_blocks)


class ForgetsToFree(Honest):
    def __init__(self) -> None:
        super().__init__()
        _uncheck()
        _plant(BlockPool, "release", lambda pool, blocks: None)


class PreemptsTheOldest(Honest):
    def __init__(self) -> None:
        super().__init__()
        _plant(Scheduler, "_pop_victim", lambda scheduler: scheduler.running.pop(0))


class NeverStalls(Honest):
    """Goes on with empty steps to the limit where upstream stalls."""

    def __init__(self) -> None:
        super().__init__()
        _plant(Watch, "judge", lambda *_: None)


class Ignores(Honest):
    """Claims every capability, and ignores one."""

    def __init__(self, capability: str) -> None:
        super().__init__()
        self._capability = capability
        self._as_played = IGNORING[capability]

    def observe(self, scenario: Message, happened: Any) -> Message:
        return super().observe(self._as_played(scenario), happened)

    def step(self, seq: int, number: int, step: Message) -> None:
        if self._capability != "step-trace":
            super().step(seq, number, step)


class Blanks(Honest):
    """Claims every field, and one of its steps is always empty."""

    def __init__(self, field: str) -> None:
        super().__init__()
        self._field = field

    def step(self, seq: int, number: int, step: Message) -> None:
        super().step(seq, number, {**step, self._field: type(step[self._field])()})

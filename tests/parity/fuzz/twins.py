"""Two engines as the two sides, one of them with a fault, so that a hunt can be tested without upstream."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from engine.block_pool import BlockPool
from parity.engine_side import EngineSide
from parity.fuzz.examine import Examiner, always
from parity.side import Play

Fault = Callable[[pytest.MonkeyPatch], None]


class Faulty(EngineSide):
    """The engine with a fault that is there while it plays, and gone when it has."""

    def __init__(self, fault: Fault) -> None:
        super().__init__()
        self._fault = fault

    def finish(self) -> Play:
        with pytest.MonkeyPatch.context() as patch:
            self._fault(patch)
            return super().finish()


def frees_in_reverse(patch: pytest.MonkeyPatch) -> None:
    """Blocks go back into the queue in the order of the table, and not from its end."""
    release = BlockPool.release

    def reversed_release(self: BlockPool, blocks: Iterable[int]) -> None:
        release(self, list(blocks)[::-1])

    patch.setattr(BlockPool, "release", reversed_release)


def forgets_to_evict(patch: pytest.MonkeyPatch) -> None:
    """A block that is taken stays findable under its old key."""
    patch.setattr(BlockPool, "_evict", lambda self, block: self.hash_of.pop(block))


def examiner(fault: Fault | None = None, *, mirrors: bool = True) -> Examiner:
    """The engine, held against itself with a fault."""
    subject: Any = EngineSide() if fault is None else Faulty(fault)
    return Examiner(always(EngineSide(), subject), mirrors=mirrors)


def timeline(*requests: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """A document of level schedule with these requests, on 8 blocks of 16 unless `config` says otherwise."""
    config = {"model": "opt-125m", "num_blocks": 8, **keys.pop("config", {})}
    return {"level": "schedule", "config": config, "requests": list(requests), **keys}

"""Faults planted in our engine alone, and random timelines that show them: the untouched engine stands in for upstream."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from engine.block_pool import BlockPool
from engine.kv_manager import KVManager
from parity import session
from parity.engine_side import EngineSide
from parity.fuzz import live
from parity.fuzz.document import Document
from parity.side import Play
from parity.subjects import players
from tests.parity.stand_in import MEASURED

Plant = Callable[[pytest.MonkeyPatch], None]


def free_order(patch: pytest.MonkeyPatch) -> None:
    """Blocks with a cache key are the next to be taken, and not the last."""

    def release(self: BlockPool, blocks: Iterable[int]) -> None:
        for block in blocks:
            if self.ref_counts[block] > 1:
                self.ref_counts[block] -= 1
                continue
            del self.ref_counts[block]
            self.free[block] = None
            self.free.move_to_end(block, last=False)

    patch.setattr(BlockPool, "release", release)


def admission(patch: pytest.MonkeyPatch) -> None:
    """A request is admitted though its whole sequence does not fit."""
    whole = KVManager.allocate_slots

    def allocate(self: KVManager, *values: Any, full_sequence_must_fit: bool = False, **named: Any) -> bool:
        del full_sequence_must_fit
        return whole(self, *values, **named)

    patch.setattr(KVManager, "allocate_slots", allocate)


def faulty(fault: Plant) -> type[EngineSide]:
    """The engine with a fault that is there while this side plays, and only then."""

    class Faulty(EngineSide):
        def finish(self) -> Play:
            with pytest.MonkeyPatch.context() as patch:
                fault(patch)
                return super().finish()

    return Faulty


class Untouched(EngineSide):
    """The engine as it is, in the oracle's place."""

    name = "oracle"  # type: ignore[assignment]

    def hello(self) -> dict[str, Any]:
        return {"name": "stand-in", "version": MEASURED.version, "model_runner": "v1"}


def planted(fault: Plant) -> EngineSide:
    return faulty(fault)()


def use(monkeypatch: pytest.MonkeyPatch, fault: Plant | None) -> None:
    """Verbs play the engine with this fault (null: none) against the untouched one."""
    for module in (live, session):
        monkeypatch.setattr(module, "measure_oracle", lambda *_: MEASURED)
    monkeypatch.setattr(players, "start_oracle", lambda *_: Untouched())
    kind = EngineSide if fault is None else faulty(fault)
    monkeypatch.setattr(players, "EngineSide", kind)


def timeline(seed: int) -> Document:
    """Eight random requests, some of which begin with the prompt of another; an abort and a reset now and then."""
    draw = random.Random(seed)
    requests = []
    for index in range(8):
        shared = [{"of": f"q{draw.randrange(index)}"}, {"new": draw.randint(1, 20)}] if index else 5
        prompt = draw.choice([draw.randint(1, 70), shared, 16 * draw.randint(1, 4)])
        request = {"id": f"q{index}", "at": draw.randint(0, 12), "prompt": prompt}
        request["max_tokens"] = draw.randint(1, 30)
        if draw.random() < 0.3:
            request["priority"] = draw.randint(-2, 3)
        requests.append(request)
    config = {
        "model": draw.choice(["tiny-opt", "opt-125m"]),
        "num_blocks": draw.randint(6, 16),
        "max_num_batched_tokens": draw.choice([16, 32, 64, 8192]),
        "max_num_seqs": draw.randint(2, 8),
    }
    document: Document = {"level": "schedule", "config": config, "requests": requests}
    if draw.random() < 0.5:
        document["aborts"] = [{"id": f"q{draw.randrange(8)}", "at": draw.randint(0, 20)}]
    if draw.random() < 0.3:
        document["resets"] = [{"at": draw.randint(0, 20), "running": draw.random() < 0.5}]
    return document

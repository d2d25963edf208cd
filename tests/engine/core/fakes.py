"""A model runner without a model: its logits are a hash of the context that it reads through block tables.

It keeps, a slot, the token that was written there. A wrong table, a stale block or a skipped token therefore changes
what is generated, as it would in a real model. `scripted` text comes from a tokenizer with one letter a token.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

import torch

from engine.capacity import PlanOk, plan
from engine.core import EngineCore
from engine.live import CoreRequest
from engine.model_runner import Logits, Row
from engine.outputs import RequestOutput
from engine.policies import Policies
from engine.sampling import SamplingParams
from engine.wire import EngineConfig, ModelShape

VOCAB = 64
SHAPE = ModelShape("fake", num_layers=1, num_kv_heads=1, head_size=8, max_position=2048, vocab_size=VOCAB)
SECONDS = 20.0  # more than any wait of these tests takes


def settings(**changes: Any) -> EngineConfig:
    values: dict[str, Any] = {
        "model": SHAPE,
        "dtype": "float32",
        "block_size": 16,
        "num_blocks": 64,
        "kv_cache_memory_bytes": 1 << 30,
        "max_model_len": "auto",
        "max_num_seqs": 16,
        "max_num_batched_tokens": 2048,
        "enable_chunked_prefill": True,
        "long_prefill_token_threshold": 0,
        "scheduler_reserve_full_isl": True,
        "watermark": 0.0,
        "enable_prefix_caching": True,
        "scheduling_policy": "fcfs",
    }
    return EngineConfig(**values | changes)


def logits_of(context: Sequence[int]) -> torch.Tensor:
    """float32 [VOCAB] in -8..8, a function of the context alone."""
    seed = blake2b(repr(list(context)).encode(), digest_size=VOCAB).digest()
    return torch.tensor([byte / 16 - 8 for byte in seed], dtype=torch.float32)


def greedy(prompt: Iterable[int], count: int) -> list[int]:
    """What a request must generate greedily, from the hash alone."""
    context = list(prompt)
    for _ in range(count):
        context.append(int(logits_of(context).argmax()))
    return context[len(context) - count :]


class FakeRunner:
    """`fails` decides, for each row, whether the runner raises; `gate` holds back every step while it is closed."""

    def __init__(self, config: EngineConfig, num_blocks: int) -> None:
        self._size = config.block_size
        self._slots: list[int | None] = [None] * (num_blocks * config.block_size)
        self.steps: list[list[Row]] = []
        self.fails: Callable[[Row], bool] = lambda _row: False
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()

    def execute(self, rows: Sequence[Row]) -> Logits:
        self.entered.set()
        self.gate.wait(SECONDS)
        self.steps.append(list(rows))
        for row in rows:
            if self.fails(row):
                raise RuntimeError(f"row {row.request_id} is poison")
        for row in rows:
            for position, token in enumerate(row.token_ids, start=row.start):
                self._slots[self._slot(row, position)] = token
        last = [self._logits(row, row.start + len(row.token_ids)) for row in rows if row.sample]
        prompt = {
            row.request_id: torch.stack(
                [self._logits(row, row.start + i + 1) for i in range(len(row.token_ids))]
            )
            for row in rows
            if row.prompt_logits
        }
        return Logits(torch.stack(last) if last else torch.empty(0, VOCAB), prompt)

    def _slot(self, row: Row, position: int) -> int:
        return row.block_table[position // self._size] * self._size + position % self._size

    def _logits(self, row: Row, length: int) -> torch.Tensor:
        context = [self._slots[self._slot(row, position)] for position in range(length)]
        assert None not in context, f"{row.request_id} reads a slot that was never written"
        return logits_of([token for token in context if token is not None])


class Heard:
    """A sink that remembers; `wait` returns once the last output has come."""

    def __init__(self) -> None:
        self.outputs: list[RequestOutput] = []
        self._ended = threading.Event()
        self._first = threading.Event()

    def __call__(self, output: RequestOutput) -> None:
        assert not self._ended.is_set(), "an output after the last one"
        self.outputs.append(output)
        self._first.set()
        if output.finish_reason is not None:
            self._ended.set()

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    @property
    def tokens(self) -> list[int]:
        return [token for output in self.outputs for token in output.token_ids]

    @property
    def reason(self) -> str | None:
        return self.outputs[-1].finish_reason if self.outputs else None

    def wait(self) -> Heard:
        assert self._ended.wait(SECONDS), f"no end; {len(self.outputs)} outputs so far"
        return self

    def wait_first(self) -> Heard:
        assert self._first.wait(SECONDS), "no output"
        return self


class Scene:
    """A core over a fake runner."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        found = plan(config, Policies())
        assert isinstance(found, PlanOk), found
        self.plan = found
        self.runner = FakeRunner(config, found.num_blocks)
        self.core = EngineCore(self.runner, config, found)

    def add(self, request_id: str, prompt: Sequence[int], max_tokens: int = 4, **changes: Any) -> Heard:
        """Queue a greedy request that ignores EOS, unless `changes` say otherwise."""
        outer = {
            key: changes.pop(key)
            for key in ("eos_token_id", "more_eos_token_ids", "priority", "cache_salt")
            if key in changes
        }
        values: dict[str, Any] = {"temperature": 0.0, "max_tokens": max_tokens, "ignore_eos": True}
        params = SamplingParams(**values | changes)
        heard = Heard()
        self.core.add(CoreRequest(request_id, tuple(prompt), params, **outer), heard)
        return heard


@contextmanager
def scene(**changes: Any) -> Iterator[Scene]:
    """A scene whose core serves, and stops at the end."""
    made = Scene(settings(**changes))
    made.core.start()
    try:
        yield made
    finally:
        made.runner.gate.set()
        made.core.stop()

"""The text half of `make bench`: ours, upstream and transformers on the same weights, a dtype after the other.

Each side keeps its own defaults (block size, token budget, prefix cache, threads); prompts are fresh every round, so
that no cache has seen them. What shares a prefix is measured apart, ours with the cache beside ours without.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from parity.bench.figures import OURS, TRANSFORMERS, UPSTREAM, Cell, Figure, memory, of_cell
from parity.bench.rounds import Say, measure, random_prompts, sharing_prompts
from parity.bench.side import Answer, GenerateProcess, GenerateSide, Ready, SideFailed
from parity.errors import UsageError

UNCACHED = "ours without the cache"
CACHE_TARGET = 4.0  # times as fast with the cache
ITEM_BYTES = {"float32": 4, "bfloat16": 2}


class Plan(msgspec.Struct, frozen=True):
    """What is measured. Lengths in tokens, pools in bytes."""

    dtypes: tuple[str, ...] = ("float32", "bfloat16")
    batches: tuple[int, ...] = (1, 8, 32)
    rounds: int = 3
    prompt_tokens: int = 128
    new_tokens: int = 64
    pool_bytes: int = 1 << 30
    prefix_requests: int = 64
    prefix_shared: int = 512
    prefix_own: int = 16
    prefix_new_tokens: int = 16
    prefix_pool_bytes: int = 2 << 30


QUICK = Plan(dtypes=("float32",), batches=(8,), rounds=1)


class ModelFacts(msgspec.Struct, frozen=True):
    """What the bench must know of a model: ids below `vocab_size`, and how many numbers its weights are."""

    vocab_size: int
    num_parameters: int

    @classmethod
    def read(cls, folder: Path) -> ModelFacts:
        """Raises UsageError for a folder that holds no model."""
        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            files = sorted(folder.glob("*.safetensors"))
            counted = sum(_numbers(path) for path in files)
            facts = cls(int(config["vocab_size"]), counted)
        except (OSError, ValueError, KeyError) as error:
            raise UsageError(
                f"{folder} holds no model that can be measured ({error})", hint="run `make model`"
            ) from None
        if not counted:
            raise UsageError(f"{folder} holds no *.safetensors", hint="run `make model`")
        return facts


def _numbers(path: Path) -> int:
    """How many numbers a safetensors file holds: eight bytes of length, then a JSON header of that length."""
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return sum(math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")


class Launcher:
    """Starts the sides' processes, upstream's in the oracle's interpreter and environment."""

    def __init__(
        self, root: Path, model: Path, upstream_python: Path, upstream_environment: Mapping[str, str]
    ) -> None:
        self._root = root
        self._model = model
        self._python = upstream_python
        self._environment = upstream_environment

    def of_dtype(self, dtype: str, pool_bytes: int) -> list[GenerateSide]:
        """Ours, upstream and transformers."""
        pool = ["--kv-cache-memory-bytes", str(pool_bytes)]
        upstream = GenerateProcess(
            UPSTREAM,
            [str(self._python), "-m", "oracle.generate", *self._model_flags(dtype), *pool],
            self._root,
            self._environment,
        )
        return [
            self._own(OURS, "engine_generate", dtype, pool),
            upstream,
            self._own(TRANSFORMERS, "transformers_generate", dtype, []),
        ]

    def of_cache(self, dtype: str, pool_bytes: int) -> list[GenerateSide]:
        """Ours with the prefix cache, and ours without."""
        pool = ["--kv-cache-memory-bytes", str(pool_bytes)]
        return [
            self._own(OURS, "engine_generate", dtype, pool),
            self._own(UNCACHED, "engine_generate", dtype, [*pool, "--no-prefix-caching"]),
        ]

    def _own(self, name: str, module: str, dtype: str, more: Sequence[str]) -> GenerateSide:
        command = [sys.executable, "-m", f"parity.bench.{module}", *self._model_flags(dtype), *more]
        return GenerateProcess(name, command, self._root, os.environ)

    def _model_flags(self, dtype: str) -> list[str]:
        return ["--model", str(self._model), "--dtype", dtype]


Start = Callable[[str, int], list[GenerateSide]]


@contextmanager
def started(start: Start, dtype: str, pool_bytes: int, say: Say) -> Iterator[list[GenerateSide]]:
    """The sides, loaded as far as they can be; ended when the block is left."""
    sides = start(dtype, pool_bytes)
    try:
        for side in sides:
            try:
                ready = side.ready()
                say(f"{dtype}: {side.name} is ready ({ready.version}, {ready.threads} threads)")
            except SideFailed as error:
                say(f"{dtype}: {error}")
        yield sides
    finally:
        for side in sides:
            side.close()


def measure_dtype(
    start: Start, dtype: str, plan: Plan, model: ModelFacts, say: Say
) -> tuple[list[Cell], list[Figure]]:
    """All batches in one dtype, their ratios, and the peak memory of ours beside upstream's."""
    cells: list[Cell] = []
    with started(start, dtype, plan.pool_bytes, say) as sides:
        watched = [_Watched(side) for side in sides]
        for batch in plan.batches:

            def make(number: int, batch: int = batch) -> list[list[int]]:
                seed = f"{dtype} {batch} {number}"
                return random_prompts(seed, batch, plan.prompt_tokens, model.vocab_size)

            cells.append(measure(watched, dtype, batch, make, plan.new_tokens, plan.rounds, say))
        weights = model.num_parameters * ITEM_BYTES[dtype]
        beyond = {side.name: side.beyond(weights) for side in watched}
    figures = [figure for cell in cells for figure in of_cell(cell)]
    return cells, [*figures, memory(dtype, beyond[OURS], beyond[UPSTREAM])]


def measure_prefix(start: Start, dtype: str, plan: Plan, model: ModelFacts, say: Say) -> Figure:
    """Requests that share a prefix, with the cache over without it."""

    def make(number: int) -> list[list[int]]:
        return sharing_prompts(
            f"prefix {dtype} {number}",
            plan.prefix_requests,
            plan.prefix_shared,
            plan.prefix_own,
            model.vocab_size,
        )

    say(f"{dtype}: {plan.prefix_requests} requests that share {plan.prefix_shared} tokens")
    with started(start, dtype, plan.prefix_pool_bytes, say) as sides:
        cell = measure(sides, dtype, plan.prefix_requests, make, plan.prefix_new_tokens, plan.rounds, say)
    rates = {name: f"{spread.median:.1f}" for name, spread in cell.rates.items()}
    found = cell.ratios.get(UNCACHED)
    note = f"{rates[OURS]}, {rates[UNCACHED]} tokens/s" if found else "; ".join(cell.faults.values())
    what = f"{dtype}: {plan.prefix_requests} requests that share {plan.prefix_shared} tokens, cache / none"
    return Figure(what, found, CACHE_TARGET, "at least", note)


class _Watched:
    """A side whose peak memory is kept from answer to answer."""

    def __init__(self, side: GenerateSide) -> None:
        self._side = side
        self._peak = 0
        self.name = side.name

    def ready(self) -> Ready:
        return self._side.ready()

    def generate(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> Answer:
        answer = self._side.generate(prompts, max_tokens)
        self._peak = max(self._peak, answer.peak_rss)
        return answer

    def close(self) -> None:
        self._side.close()

    def beyond(self, weights: int) -> int | str:
        """Peak bytes beyond weights and pool, or why there are none."""
        try:
            pool = self._side.ready().pool_bytes
        except SideFailed as error:
            return str(error)
        return self._peak - weights - pool if self._peak else f"{self.name} answered nothing"

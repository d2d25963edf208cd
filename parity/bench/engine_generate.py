"""`python -m parity.bench.engine_generate`: the engine as a side of `make bench`, through the LLM that serves."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from engine import __version__, startup
from engine.options import EngineOptions
from engine.sampling import SamplingParams
from oracle.driver.environment import private_streams, quiet_signals
from oracle.generation import Generated, serve

if TYPE_CHECKING:
    from engine.llm import LLM

GREEDY = SamplingParams(temperature=0.0, ignore_eos=True)


class Engine:
    """A started `LLM`: what is timed is what `nullblock generate` does, tokenisation of the prompt left out."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm

    def describe(self) -> dict[str, Any]:
        import torch

        plan = self._llm.core.plan
        return {
            "name": "ours",
            "version": __version__,
            "threads": torch.get_num_threads(),
            "pool_bytes": plan.num_blocks * plan.bytes_per_block,
        }

    def generate(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> list[Generated]:
        prepared = [self._llm.prepare(prompt, GREEDY, max_tokens=max_tokens) for prompt in prompts]
        done = [choices[0] for choices in self._llm.generate(prepared)]
        return [Generated(one.token_ids, one.error or one.finish_reason) for one in done]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m parity.bench.engine_generate", description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtype", required=True)
    parser.add_argument("--kv-cache-memory-bytes", type=int, required=True)
    parser.add_argument("--prefix-caching", action=argparse.BooleanOptionalAction, default=True)
    args = parser.parse_args(argv)
    quiet_signals()
    source, sink = private_streams()
    options = EngineOptions(
        model=args.model,
        dtype=args.dtype,
        kv_cache_memory_bytes=args.kv_cache_memory_bytes,
        enable_prefix_caching=args.prefix_caching,
    )
    llm = startup.load_llm(options, lambda line: print(line, file=sys.stderr))
    try:
        serve(source, sink, Engine(llm))
    finally:
        llm.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())

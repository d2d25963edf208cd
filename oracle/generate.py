"""`python -m oracle.generate`: upstream's offline engine as a side of `make bench`, in the oracle's environment.

It runs in this one process, without a core process beside it: that is upstream at its fastest on few cores,
and its memory is then this process's own.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from oracle.driver.environment import fix_environment, private_streams, quiet_signals, seed_hashes
from oracle.generation import Generated, serve


class Upstream:
    """A model under vllm/entrypoints/llm.py::LLM, with upstream's own defaults but for what is named here."""

    def __init__(self, model: str, dtype: str, kv_cache_memory_bytes: int) -> None:
        from vllm import LLM

        self._pool_bytes = kv_cache_memory_bytes
        self._llm: Any = LLM(
            model=model,
            dtype=dtype,
            enforce_eager=True,
            kv_cache_memory_bytes=kv_cache_memory_bytes,
            disable_log_stats=True,
        )

    def describe(self) -> dict[str, Any]:
        import torch
        import vllm

        return {
            "name": "upstream",
            "version": vllm.__version__,
            "threads": torch.get_num_threads(),
            "pool_bytes": self._pool_bytes,
        }

    def generate(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> list[Generated]:
        from vllm import SamplingParams

        params = SamplingParams(temperature=0.0, max_tokens=max_tokens, ignore_eos=True)
        asked = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
        outputs = self._llm.generate(asked, params, use_tqdm=False)
        return [Generated(one.outputs[0].token_ids, one.outputs[0].finish_reason) for one in outputs]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m oracle.generate", description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtype", required=True)
    parser.add_argument("--kv-cache-memory-bytes", type=int, required=True)
    args = parser.parse_args(argv)
    seed_hashes()
    quiet_signals()
    fix_environment()
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    source, sink = private_streams()
    serve(source, sink, Upstream(args.model, args.dtype, args.kv_cache_memory_bytes))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m parity.bench.transformers_generate`: transformers' own `generate` as a side of `make bench`.

Prompts of one length only, so that a batch needs no padding; a batch is one call.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from oracle.driver.environment import private_streams, quiet_signals
from oracle.generation import Generated, serve


class Transformers:
    """A causal language model of transformers with greedy decoding and no EOS at all."""

    def __init__(self, model: str, dtype: str) -> None:
        import torch
        from transformers import AutoModelForCausalLM, GenerationConfig

        self._torch: Any = torch
        self._model: Any = AutoModelForCausalLM.from_pretrained(
            model, dtype=getattr(torch, dtype), local_files_only=True
        ).eval()
        self._model.generation_config = GenerationConfig(
            do_sample=False, eos_token_id=None, bos_token_id=None, pad_token_id=0
        )

    def describe(self) -> dict[str, Any]:
        import transformers

        return {
            "name": "transformers",
            "version": transformers.__version__,
            "threads": self._torch.get_num_threads(),
            "pool_bytes": 0,
        }

    def generate(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> list[Generated]:
        ids = self._torch.tensor([list(prompt) for prompt in prompts])
        with self._torch.inference_mode():
            done = self._model.generate(
                ids, attention_mask=self._torch.ones_like(ids), max_new_tokens=max_tokens
            )
        return [Generated(row, "length") for row in done[:, ids.shape[1] :].tolist()]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m parity.bench.transformers_generate", description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtype", required=True)
    args = parser.parse_args(argv)
    quiet_signals()
    source, sink = private_streams()
    serve(source, sink, Transformers(args.model, args.dtype))
    return 0


if __name__ == "__main__":
    sys.exit(main())

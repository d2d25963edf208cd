"""Computes a step: rows of tokens in, logits out; owns the model and the KV tensors, and knows no scheduler.

Rows may mix decode, whole prompts, chunks and what follows a cached prefix. Whatever a row is batched with, its
numbers differ by rounding only.
Mirrors vllm/v1/worker/gpu_model_runner.py::GPUModelRunner.execute_model in what is computed, not in how.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import torch

from engine.attention import Attention, PlainAttention, arrange
from engine.errors import ModelError
from engine.kernels import compiled, team
from engine.kv_tensors import KVTensors
from engine.model_folder import resolve_folder
from engine.models import Model, family_of, linear
from engine.weights import DTYPES, Weights, read_config, shape_of
from engine.wire import ModelShape


class Row(msgspec.Struct, frozen=True):
    """One request's part of a step.

    `token_ids` are computed now, the first at position `start`; `block_table` is the request's whole table.
    `sample` asks for the last token's logits, `prompt_logits` for those of every token.
    """

    request_id: str
    token_ids: Sequence[int]
    start: int
    block_table: Sequence[int]
    sample: bool = True
    prompt_logits: bool = False


class Logits(msgspec.Struct, frozen=True):
    """float32: `last [rows with sample, vocab_size]` in row order, `prompt[request_id] [len(token_ids), vocab_size]`."""

    last: torch.Tensor
    prompt: dict[str, torch.Tensor]


class ModelRunner:
    """A model on its device with `num_blocks` blocks of KV memory, the null block included."""

    def __init__(
        self, model: Model, shape: ModelShape, kv: KVTensors, dtype: torch.dtype, max_tokens: int, plain: bool
    ) -> None:
        self.shape = shape
        self.kv = kv
        self.plain = plain
        self._model = model
        self._dtype = dtype
        self._device = kv.layer(0).device
        self._max_tokens = max_tokens

    @classmethod
    def load(
        cls,
        folder: str | Path,
        dtype: str,
        device: str,
        num_blocks: int,
        block_size: int,
        max_num_batched_tokens: int,
        plain: bool = False,
    ) -> ModelRunner:
        """Read the model in `folder` (or of a hub's name) and reserve its KV memory.

        `dtype` is float32, bfloat16 or float16; `device` is cpu or cuda. `plain` takes the plain twin of each
        fast path. Raises ModelError, where it can be known before weights are read.
        """
        if dtype not in DTYPES:
            raise ModelError(f"no dtype {dtype}: choose one of {', '.join(DTYPES)}")
        where = _device(device)
        path = resolve_folder(str(folder))
        config = read_config(path)
        family = family_of(config)
        shape = shape_of(config, path.name)
        if not plain and team.usable(DTYPES[dtype], where):
            _compile(DTYPES[dtype], shape.head_size)
        kv = KVTensors(
            shape.num_layers,
            num_blocks,
            block_size,
            shape.num_kv_heads,
            shape.head_size,
            DTYPES[dtype],
            where,
        )
        with torch.inference_mode():
            weights = Weights(path, DTYPES[dtype], where)
            model = family(config, weights, plain)
        weights.check_spent(tied=bool(config.tie_word_embeddings))
        return cls(model, shape, kv, DTYPES[dtype], max_num_batched_tokens, plain)

    def execute(self, rows: Sequence[Row]) -> Logits:
        """Compute a step's rows, write their keys and values, and answer the logits that they ask for.

        A step without rows, or with more tokens than the runner was made for, is the caller's fault
        (AssertionError).
        """
        total = sum(len(row.token_ids) for row in rows)
        if not 0 < total <= self._max_tokens:
            raise AssertionError(f"a step of {total} tokens, for a runner of at most {self._max_tokens}")
        groups = [[i] for i in range(len(rows))] if self.plain else self._arrange(rows)
        order = [i for group in groups for i in group]
        ordered = [rows[i] for i in order]
        attend: Attention | PlainAttention
        if self.plain:
            attend = PlainAttention(self.kv, ordered)
        else:
            attend = Attention(self.kv, ordered, [[rows[i] for i in group] for group in groups], self._dtype)
        token_ids = torch.tensor([token for row in ordered for token in row.token_ids], device=self._device)
        positions = torch.tensor(
            [p for row in ordered for p in range(row.start, row.start + len(row.token_ids))],
            device=self._device,
        )
        linear.expect(decodes=total == len(rows))
        with torch.inference_mode():
            hidden = self._model.hidden(token_ids, positions, attend)
            return self._logits(rows, order, hidden)

    def _arrange(self, rows: Sequence[Row]) -> list[list[int]]:
        padded = not team.usable(self._dtype, self._device)
        return arrange(rows, self.kv.block_size, padded=padded)

    def _logits(self, rows: Sequence[Row], order: Sequence[int], hidden: torch.Tensor) -> Logits:
        """Only the hidden rows that somebody asked for meet the vocabulary."""
        begins: dict[int, int] = {}
        begin = 0
        for i in order:
            begins[i] = begin
            begin += len(rows[i].token_ids)
        last = [begins[i] + len(row.token_ids) - 1 for i, row in enumerate(rows) if row.sample]
        prompt = {
            row.request_id: self._project(hidden[begins[i] : begins[i] + len(row.token_ids)])
            for i, row in enumerate(rows)
            if row.prompt_logits
        }
        wanted = hidden if last == list(range(begin)) else hidden[torch.tensor(last, dtype=torch.int64)]
        return Logits(self._project(wanted), prompt)

    def _project(self, hidden: torch.Tensor) -> torch.Tensor:
        return self._model.logits(hidden).float()


def must_compile(dtype: str, device: str, head_size: int) -> bool:
    """Whether loading will take some ten seconds more, because kernels are not compiled yet."""
    usable = dtype in DTYPES and team.usable(DTYPES[dtype], torch.device(device))
    return usable and not compiled.is_kept(f"{DTYPES[dtype]}-{head_size}")


def _compile(dtype: torch.dtype, head_size: int) -> None:
    """Kernels that are compiled at first use would keep the first request waiting."""
    from engine.kernels import attend, product, rows

    attend.prepare(dtype, head_size)
    rows.prepare(dtype)
    product.prepare()
    compiled.keep(f"{dtype}-{head_size}")


def _device(name: str) -> torch.device:
    """The device called `name`. Raises ModelError for one that is not there."""
    if name not in ("cpu", "cuda"):
        raise ModelError(f"no device {name}: choose cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise ModelError("no CUDA device is there: choose --device cpu")
    return torch.device(name)

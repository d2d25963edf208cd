"""What the core asks of a model runner in one step, and what it gets: the border between scheduling and tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Row:
    """The tokens of one request to compute now.

    `start` is the position of the first of `token_ids`, `block_table` the request's whole table. `sample` asks
    for the logits of the last token, `prompt_logits` for those of every token of the row.
    """

    request_id: str
    token_ids: Sequence[int]
    start: int
    block_table: Sequence[int]
    sample: bool
    prompt_logits: bool


@dataclass(frozen=True, slots=True)
class Logits:
    """`last`: float32 [rows with `sample`, vocab], in row order; `prompt`: request id to float32 [tokens, vocab]."""

    last: torch.Tensor
    prompt: dict[str, torch.Tensor] = field(default_factory=dict)


class Runner(Protocol):
    """What the core needs of a model runner."""

    def execute(self, rows: Sequence[Row]) -> Logits:
        """Compute the rows, writing keys and values through the block tables. Running rows again is harmless."""

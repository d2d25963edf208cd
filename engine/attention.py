"""Attention of one step: rows of any kind in one batch, keys and values read through block tables only.

What depends on the step and not on the layer (slots, tables, masks) is computed once; a layer then writes all its
keys and values and then attends group by group: a row may read a cached block that another row fills in the same
step. A group is a set of rows that one call can compute: decode rows, all of them where a kernel reads each to its
own length, else those of similar length, padded to the longest; or prefill chunks of the same length that start a
request; or one chunk that continues a request (after a chunk, a cached prefix or both).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import torch
import torch.nn.functional as F

from engine.kernels import team
from engine.kv_tensors import KVTensors

# A group reads at most this many tokens of keys and values at once, so that the copy stays small beside the weights.
MAX_READ_TOKENS: Final = 65_536


class Chunk(Protocol):
    """A request's part of a step: `token_ids` from position `start` on, in the blocks of `block_table`."""

    @property
    def token_ids(self) -> Sequence[int]: ...
    @property
    def start(self) -> int: ...
    @property
    def block_table(self) -> Sequence[int]: ...


class Group:
    """Rows `[begin, end)` of the step's flat tokens: `rows` of `length` tokens each.

    `tables [rows, blocks]` is padded with the null block; keys end at `contexts [rows]`, at most at `context`. `mask`
    `[rows or 1, 1, length, context]` is added to the scores; None means causal from position 0, or nothing to hide.
    `beyond [rows, 1, context, 1]` says which keys and values of padded decode rows are none of theirs.
    """

    __slots__ = (
        "begin",
        "beyond",
        "causal",
        "context",
        "contexts",
        "end",
        "length",
        "mask",
        "rows",
        "tables",
    )

    def __init__(
        self,
        begin: int,
        chunks: Sequence[Chunk],
        block_size: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.rows, self.length = len(chunks), len(chunks[0].token_ids)
        self.begin, self.end = begin, begin + self.rows * self.length
        contexts = [chunk.start + self.length for chunk in chunks]
        self.context = max(contexts)
        blocks = -(-self.context // block_size)
        padding = [0] * blocks
        tables = [(list(chunk.block_table[:blocks]) + padding)[:blocks] for chunk in chunks]
        self.tables = torch.tensor(tables, device=device)
        self.contexts = torch.tensor(contexts, device=device)
        self.causal = self.length > 1 and all(chunk.start == 0 for chunk in chunks)
        self.mask: torch.Tensor | None = None
        self.beyond: torch.Tensor | None = None
        if not self.causal and (self.length > 1 or min(contexts) < self.context):
            starts = torch.tensor([chunk.start for chunk in chunks], device=device)
            last = starts[:, None] + torch.arange(self.length, device=device)
            hidden = torch.arange(self.context, device=device) > last[:, None, :, None]
            self.mask = torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill_(hidden, -torch.inf)
            if self.length == 1:
                self.beyond = hidden.view(self.rows, 1, self.context, 1)


def arrange(chunks: Sequence[Chunk], block_size: int, *, padded: bool) -> list[list[int]]:
    """Indices of `chunks` in groups: decode rows first, by length, then what starts a request, then the rest.

    Where decode rows are `padded` to the group's longest, its context is at most twice the shortest (or one
    block's more), so that padding at most doubles what is read; else they are one group.
    """
    decode = [i for i, chunk in enumerate(chunks) if len(chunk.token_ids) == 1]
    decode.sort(key=lambda i: chunks[i].start)
    groups: list[list[int]] = []
    limit = 0
    for i in decode:
        context = chunks[i].start + 1
        if not groups or (padded and (context > limit or (len(groups[-1]) + 1) * context > MAX_READ_TOKENS)):
            groups.append([])
            limit = 2 * context + block_size
        groups[-1].append(i)
    alike: dict[int, list[int]] = {}
    for i, chunk in enumerate(chunks):
        width = len(chunk.token_ids)
        if width > 1 and chunk.start == 0:
            group = alike.get(width)
            if group is None or (len(group) + 1) * width > MAX_READ_TOKENS:
                group = alike[width] = []
                groups.append(group)
            group.append(i)
    groups.extend([i] for i, chunk in enumerate(chunks) if len(chunk.token_ids) > 1 and chunk.start > 0)
    return groups


def slots_of(chunk: Chunk, block_size: int) -> Iterable[int]:
    """The slot of each of the chunk's tokens, in order."""
    table = chunk.block_table
    for position in range(chunk.start, chunk.start + len(chunk.token_ids)):
        yield table[position // block_size] * block_size + position % block_size


class Attention:
    """The step's attention: call it once a layer. `chunks` are in the order of the flat tokens."""

    def __init__(
        self, kv: KVTensors, chunks: Sequence[Chunk], groups: Sequence[Sequence[Chunk]], dtype: torch.dtype
    ) -> None:
        self._kv = kv
        device = kv.layer(0).device
        slots = [slot for chunk in chunks for slot in slots_of(chunk, kv.block_size)]
        self._slots = torch.tensor(slots, device=device)
        self._padded = not team.usable(dtype, device)
        self._groups: list[Group] = []
        begin = 0
        for members in groups:
            self._groups.append(Group(begin, members, kv.block_size, dtype, device))
            begin = self._groups[-1].end

    def __call__(self, layer: int, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
        """Write `kv [num_tokens, 2, num_kv_heads, head_size]`, attend with `q [num_tokens, num_heads, head_size]`.

        The answer is `[num_tokens, num_heads * head_size]`.
        """
        self._kv.write(layer, self._slots, kv)
        parts = [self._attend(layer, group, q[group.begin : group.end]) for group in self._groups]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _attend(self, layer: int, group: Group, q: torch.Tensor) -> torch.Tensor:
        num_heads, head_size = q.shape[1:]
        if group.length == 1 and not self._padded:
            from engine.kernels.attend import attend

            return attend(q, self._kv, layer, group.tables, group.contexts)
        k, v = self._kv.read(layer, group.tables)
        k, v = k[:, :, : group.context], v[:, :, : group.context]
        if group.length == 1:
            # The query heads of one KV head take the place of query positions, so that no head is repeated.
            kv_heads = k.shape[1]
            if group.beyond is not None:
                # A block's last owner may have left what is no number there, and no weight makes that zero.
                k.masked_fill_(group.beyond, 0.0)
                v.masked_fill_(group.beyond, 0.0)
            folded = q.view(group.rows, kv_heads, num_heads // kv_heads, head_size)
            out = F.scaled_dot_product_attention(folded, k, v, attn_mask=group.mask)
            return out.reshape(group.rows, num_heads * head_size)
        q = q.view(group.rows, group.length, num_heads, head_size).transpose(1, 2)
        out = F.scaled_dot_product_attention(
            q, k, v, attn_mask=group.mask, is_causal=group.causal, enable_gqa=num_heads != k.shape[1]
        )
        return out.transpose(1, 2).reshape(group.rows * group.length, num_heads * head_size)


class PlainAttention:
    """The plain twin: row by row, scores written out, in float32, every head repeated. Slow and easy to believe."""

    def __init__(self, kv: KVTensors, chunks: Sequence[Chunk]) -> None:
        self._kv = kv
        self._chunks = chunks
        self._device = kv.layer(0).device

    def __call__(self, layer: int, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
        """As Attention's."""
        keys, values = self._kv.layer(layer)
        block_size = self._kv.block_size
        slots = [slot for chunk in self._chunks for slot in slots_of(chunk, block_size)]
        for i, slot in enumerate(slots):
            keys[slot // block_size, slot % block_size] = kv[i, 0]
            values[slot // block_size, slot % block_size] = kv[i, 1]
        parts = []
        begin = 0
        for chunk in self._chunks:
            end = begin + len(chunk.token_ids)
            context = chunk.start + end - begin
            table = torch.tensor(chunk.block_table[: -(-context // block_size)], device=self._device)
            k = keys[table].flatten(0, 1)[:context]
            v = values[table].flatten(0, 1)[:context]
            parts.append(_attend_plainly(q[begin:end], k, v, chunk.start))
            begin = end
        return torch.cat(parts).to(q.dtype)


def _attend_plainly(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, start: int) -> torch.Tensor:
    """`q [tokens, num_heads, head_size]` over `k`, `v` `[context, num_kv_heads, head_size]`, float32."""
    tokens, num_heads, head_size = q.shape
    repeats = num_heads // k.shape[1]
    k = k.float().repeat_interleave(repeats, dim=1)
    v = v.float().repeat_interleave(repeats, dim=1)
    scores = torch.einsum("qhd,khd->hqk", q.float(), k) * head_size**-0.5
    positions = torch.arange(start, start + tokens, device=q.device)
    future = torch.arange(k.shape[0], device=q.device) > positions[:, None]
    weights = scores.masked_fill(future, -torch.inf).softmax(dim=-1)
    return torch.einsum("hqk,khd->qhd", weights, v).reshape(tokens, num_heads * head_size)

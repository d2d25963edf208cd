"""Attention of decode rows: each reads its keys and values where they lie, a few slots at a time, once.

The softmax is taken as the slots go by: what was summed is scaled down whenever a larger score turns up. The next
slots are asked for while some are computed. Plain twin: engine.attention.PlainAttention.

Arguments: 1 rows, 2 kv_heads, 3 heads a KV head, 4 block_size, 5 KV heads a task, 6 blocks a row of the table,
7 elements from q's row to row, 8 scale's bits, 9 q, 10 the layer's KV, 11 tables, 12 contexts, 13 out
`[rows, heads * head_size]`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np
import torch
from numba import carray

from engine.kernels.elements import exponential, narrow, wide
from engine.kernels.team import ELEMENTS, bits, inlined, kernel, pointer, prefetch, run, ticket
from engine.kv_tensors import KVTensors

LOWEST: Final = np.float32(-3.0e38)
SPAN: Final = 16  # slots read at once: their keys are still at hand when their values have been asked for


@inlined
def _dot(a: Any, b: Any, size: Any) -> Any:
    total = np.float32(0)
    for i in range(size):
        total += a[i] * wide(b[i])
    return total


@inlined
def _dot_four(scores: Any, at: Any, size: Any, a: Any, b0: Any, b1: Any, b2: Any, b3: Any) -> None:
    t0 = t1 = t2 = t3 = np.float32(0)
    for i in range(size):
        t0 += a[i] * wide(b0[i])
        t1 += a[i] * wide(b1[i])
        t2 += a[i] * wide(b2[i])
        t3 += a[i] * wide(b3[i])
    scores[at], scores[at + 1], scores[at + 2], scores[at + 3] = t0, t1, t2, t3


@inlined
def _scale(x: Any, factor: Any, size: Any) -> None:
    for i in range(size):
        x[i] *= factor


@inlined
def _add_eight(out: Any, size: Any, p: Any, slot: Any, block: Any, at: Any, step: Any) -> None:
    p0, p1, p2, p3 = p[slot], p[slot + 1], p[slot + 2], p[slot + 3]
    p4, p5, p6, p7 = p[slot + 4], p[slot + 5], p[slot + 6], p[slot + 7]
    v0, v1, v2, v3 = block[at], block[at + step], block[at + 2 * step], block[at + 3 * step]
    at += 4 * step
    v4, v5, v6, v7 = block[at], block[at + step], block[at + 2 * step], block[at + 3 * step]
    for i in range(size):
        low = (p0 * wide(v0[i]) + p1 * wide(v1[i])) + (p2 * wide(v2[i]) + p3 * wide(v3[i]))
        high = (p4 * wide(v4[i]) + p5 * wide(v5[i])) + (p6 * wide(v6[i]) + p7 * wide(v7[i]))
        out[i] += low + high


@inlined
def _add_one(out: Any, size: Any, p: Any, v: Any) -> None:
    for i in range(size):
        out[i] += p * wide(v[i])


@inlined
def _weigh(scores: Any, count: Any, highest: Any) -> Any:
    """Turn scores into weights in place; the answer is their sum."""
    total = np.float32(0)
    for i in range(count):
        scores[i] = exponential(scores[i] - highest)
        total += scores[i]
    return total


@inlined
def _highest(scores: Any, count: Any, highest: Any) -> Any:
    for i in range(count):
        highest = max(highest, scores[i])
    return highest


@inlined
def _take_block(
    block: Any,
    kv_heads: Any,
    count: Any,
    head: Any,
    q: Any,
    acc: Any,
    scores: Any,
    top: Any,
    sums: Any,
    size: Any,
) -> None:
    """One KV head's part of slots, `block [count * 2 * kv_heads, head_size]`; `q` and `acc` are `[group, head_size]`."""
    step = 2 * kv_heads
    for g in range(q.shape[0]):
        query = q[g]
        slot, at = 0, head
        while slot + 4 <= count:
            _dot_four(
                scores,
                slot,
                size,
                query,
                block[at],
                block[at + step],
                block[at + 2 * step],
                block[at + 3 * step],
            )
            slot += 4
            at += 4 * step
        while slot < count:
            scores[slot] = _dot(query, block[at], size)
            slot += 1
            at += step
        highest = _highest(scores, count, top[g])
        shrink = exponential(top[g] - highest)
        top[g] = highest
        sums[g] = sums[g] * shrink + _weigh(scores, count, highest)
        out = acc[g]
        if shrink != np.float32(1.0):
            _scale(out, shrink, size)
        slot, at = 0, kv_heads + head
        while slot + 8 <= count:
            _add_eight(out, size, scores, slot, block, at, step)
            slot += 8
            at += 8 * step
        while slot < count:
            _add_one(out, size, scores[slot], block[at])
            slot += 1
            at += step


@inlined
def _span(table: Any, position: Any, block_size: Any, context: Any) -> Any:
    """The slot of a position, and how many slots from there on hold the next ones, at most SPAN."""
    offset = position % block_size
    return table[position // block_size] * block_size + offset, min(
        SPAN, block_size - offset, context - position
    )


@cache
def _compiled(dtype: torch.dtype, size: int) -> Any:
    """The kernel for heads of `size` elements, a constant to the compiler."""
    element = ELEMENTS[dtype]
    element_size = dtype.itemsize

    @kernel
    def attend(arguments: Any) -> None:
        rows, kv_heads, group = arguments[1], arguments[2], arguments[3]
        block_size, part, width, stride = arguments[4], arguments[5], arguments[6], arguments[7]
        scale = np.float32(np.int64(arguments[8]).view(np.float64))
        q = carray(pointer(arguments[9]), (rows * stride,), element)
        tables = carray(pointer(arguments[11]), (rows, width), np.int64)
        contexts = carray(pointer(arguments[12]), (rows,), np.int64)
        out = carray(pointer(arguments[13]), (rows, kv_heads * group, size), element)
        queries = np.empty((part * group, size), np.float32)
        acc = np.empty((part * group, size), np.float32)
        scores = np.empty(SPAN, np.float32)
        top, sums = np.empty(part * group, np.float32), np.empty(part * group, np.float32)
        slot_bytes = 2 * kv_heads * size * element_size
        parts = kv_heads // part
        while True:
            task = ticket(arguments)
            if task >= rows * parts:
                break
            row, first = task // parts, task % parts * part
            begin = row * stride + first * group * size
            for g in range(part * group):
                for i in range(size):
                    queries[g, i] = wide(q[begin + g * size + i]) * scale
                    acc[g, i] = np.float32(0)
                top[g], sums[g] = LOWEST, np.float32(0)
            context = contexts[row]
            position = 0
            while position < context:
                at, count = _span(tables[row], position, block_size, context)
                position += count
                ahead, share = 0, 0
                if position < context and part == kv_heads:
                    ahead, following = _span(tables[row], position, block_size, context)
                    ahead = arguments[10] + ahead * slot_bytes
                    share = (following * slot_bytes // 64 + part - 1) // part * 64
                address = arguments[10] + at * slot_bytes
                block = carray(pointer(address), (count * 2 * kv_heads, size), element)
                for head in range(part):
                    for line in range(ahead, ahead + share, 64):
                        prefetch(line)
                    ahead += share
                    low, high = head * group, (head + 1) * group
                    _take_block(
                        block,
                        kv_heads,
                        count,
                        first + head,
                        queries[low:high],
                        acc[low:high],
                        scores,
                        top[low:high],
                        sums[low:high],
                        size,
                    )
            for g in range(part * group):
                answer = out[row, first * group + g]
                for i in range(size):
                    answer[i] = narrow(acc[g, i] / sums[g], q[0])

    return attend


def prepare(dtype: torch.dtype, head_size: int) -> None:
    """Compile ahead of the first decode, which takes seconds where the cache does not have it."""
    _compiled(dtype, head_size)


def attend(
    q: torch.Tensor, kv: KVTensors, layer: int, tables: torch.Tensor, contexts: torch.Tensor
) -> torch.Tensor:
    """`[rows, heads * head_size]` for decode rows.

    `q [rows, heads, head_size]` may have rows further apart; `tables [rows, blocks]` and `contexts [rows]`, the
    tokens that each row reads, are int64.
    """
    rows, heads, size = q.shape
    out = torch.empty(rows, heads * size, dtype=q.dtype)
    # A task is a row, or one KV head of it where there are too few rows for the threads.
    part = kv.num_kv_heads if rows >= 2 * torch.get_num_threads() else 1
    run(
        _compiled(q.dtype, size),
        rows * (kv.num_kv_heads // part),
        rows,
        kv.num_kv_heads,
        heads // kv.num_kv_heads,
        kv.block_size,
        part,
        tables.shape[1],
        q.stride(0),
        bits(size**-0.5),
        q.data_ptr(),
        kv.address(layer),
        tables.data_ptr(),
        contexts.data_ptr(),
        out.data_ptr(),
    )
    return out

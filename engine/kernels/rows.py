"""What a layer does to each row alone: the RMS norm with the sum before it, rotary turns, the gated activation.

Elements are float32 or bfloat16, arithmetic is float32. A task is `CHUNK` rows: fewer are done before another
thread would have begun.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np
import torch
from numba import carray

from engine.kernels.elements import exponential, narrow, wide
from engine.kernels.team import ELEMENTS, inlined, kernel, pointer, run, ticket

CHUNK: Final = 16


@inlined
def _square_sum(x: Any) -> Any:
    total = np.float32(0)
    for i in range(x.shape[0]):
        total += wide(x[i]) * wide(x[i])
    return total


@cache
def _norm_of(dtype: torch.dtype) -> Any:
    """1 rows, 2 width, 3 eps's bits (float64), 4 x, 5 delta or 0, 6 weight, 7 out. Adds delta to x in place."""

    element = ELEMENTS[dtype]

    @kernel
    def norm(arguments: Any) -> None:
        rows, width = arguments[1], arguments[2]
        eps = np.float32(np.int64(arguments[3]).view(np.float64))
        added = arguments[5] != 0
        x = carray(pointer(arguments[4]), (rows, width), element)
        delta = carray(pointer(arguments[5]), (rows, width), element)
        weight = carray(pointer(arguments[6]), (width,), element)
        out = carray(pointer(arguments[7]), (rows, width), element)
        while True:
            begin = ticket(arguments) * CHUNK
            if begin >= rows:
                break
            for row in range(begin, min(begin + CHUNK, rows)):
                one, answer = x[row], out[row]
                if added:
                    more = delta[row]
                    for i in range(width):
                        one[i] = narrow(wide(one[i]) + wide(more[i]), one[i])
                scale = np.float32(1.0) / np.sqrt(_square_sum(one) / np.float32(width) + eps)
                for i in range(width):
                    answer[i] = narrow(wide(one[i]) * scale * wide(weight[i]), one[i])

    return norm


@cache
def _turn_of(dtype: torch.dtype) -> Any:
    """1 tokens, 2 heads, 3 head_size, 4 elements from token to token, 5 x, 6 cos, 7 sin `[tokens, head_size]`."""

    element = ELEMENTS[dtype]

    @kernel
    def turn(arguments: Any) -> None:
        tokens, heads, size, stride = arguments[1], arguments[2], arguments[3], arguments[4]
        half = size // 2
        x = carray(pointer(arguments[5]), (tokens * stride,), element)
        cos = carray(pointer(arguments[6]), (tokens, size), element)
        sin = carray(pointer(arguments[7]), (tokens, size), element)
        while True:
            begin = ticket(arguments) * CHUNK
            if begin >= tokens:
                break
            for token in range(begin, min(begin + CHUNK, tokens)):
                c, s = cos[token], sin[token]
                for head in range(heads):
                    at = token * stride + head * size
                    first, second = x[at : at + half], x[at + half : at + size]
                    for i in range(half):
                        a, b = wide(first[i]), wide(second[i])
                        ci, si = wide(c[half + i]), wide(s[half + i])
                        first[i] = narrow(a * ci - b * si, first[i])
                        second[i] = narrow(b * ci + a * si, second[i])

    return turn


@inlined
def _silu(x: Any) -> Any:
    shut = exponential(-abs(x))
    opened = np.float32(1.0) if x >= np.float32(0.0) else shut
    return x * (opened / (np.float32(1.0) + shut))


@cache
def _gate_of(dtype: torch.dtype) -> Any:
    """1 rows, 2 width, 3 gate_up `[rows, 2 * width]`, 4 out `[rows, width]`: silu(gate) * up."""

    element = ELEMENTS[dtype]

    @kernel
    def gate(arguments: Any) -> None:
        rows, width = arguments[1], arguments[2]
        both = carray(pointer(arguments[3]), (rows, 2 * width), element)
        out = carray(pointer(arguments[4]), (rows, width), element)
        while True:
            begin = ticket(arguments) * CHUNK
            if begin >= rows:
                break
            for row in range(begin, min(begin + CHUNK, rows)):
                gates, ups, answer = both[row, :width], both[row, width:], out[row]
                for i in range(width):
                    opened = narrow(_silu(wide(gates[i])), gates[i])
                    answer[i] = narrow(wide(opened) * wide(ups[i]), gates[i])

    return gate


def prepare(dtype: torch.dtype) -> None:
    """Compile ahead of the first step."""
    for compiled in (_norm_of, _turn_of, _gate_of):
        compiled(dtype)


def rms_norm(
    x: torch.Tensor, delta: torch.Tensor | None, weight: torch.Tensor, eps_bits: int
) -> torch.Tensor:
    """The RMS norm of `x + delta` `[rows, width]`, both contiguous; the sum stays in `x`.

    `eps_bits` are the bits of eps as a float64. Plain twin: `x.add_(delta)`, then `F.rms_norm`.
    """
    rows, width = x.shape
    out = torch.empty_like(x)
    more = 0 if delta is None else delta.data_ptr()
    run(
        _norm_of(x.dtype),
        -(-rows // CHUNK),
        rows,
        width,
        eps_bits,
        x.data_ptr(),
        more,
        weight.data_ptr(),
        out.data_ptr(),
    )
    return out


def turn_(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> None:
    """Turn `x [tokens, heads, head_size]` in place; heads lie side by side, tokens may lie further apart."""
    tokens, heads, size = x.shape
    run(
        _turn_of(x.dtype),
        -(-tokens // CHUNK),
        tokens,
        heads,
        size,
        x.stride(0),
        x.data_ptr(),
        cos.data_ptr(),
        sin.data_ptr(),
    )


def silu_gate(both: torch.Tensor) -> torch.Tensor:
    """`silu(gate) * up` `[rows, width]` of contiguous `[rows, 2 * width]`, gate first."""
    rows, width = both.shape[0], both.shape[1] // 2
    out = torch.empty(rows, width, dtype=both.dtype)
    run(_gate_of(both.dtype), -(-rows // CHUNK), rows, width, both.data_ptr(), out.data_ptr())
    return out

"""`x [rows, inputs]` times a float32 weight `[outputs, inputs]` as it was read.

A product of few rows costs what it takes to read the weight once: six of its rows meet four rows of `x` in
registers, and the next six are asked for meanwhile. Sums run along `inputs` in many parts, which rounds less than
one sum does. Plain twin: torch's `F.linear`.

Arguments: 1 rows, 2 inputs, 3 outputs, 4 outputs a task, 5 x, 6 weight, 7 bias `[outputs]`, 8 out `[rows, outputs]`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np
import torch
from numba import carray

from engine.kernels.team import Kernel, inlined, kernel, pointer, prefetch, run, ticket

TASKS: Final = 8  # more than threads, so that one that was interrupted does not keep the others waiting
MIN_WIDTH: Final = 24  # outputs of a task
MAX_ROWS: Final = 256  # with more of them torch's own product is as fast


@inlined
def _six_by_four(w: Any, n: Any, x: Any, m: Any, bias: Any, out: Any) -> None:
    a0 = a1 = a2 = a3 = a4 = a5 = b0 = b1 = b2 = b3 = b4 = b5 = np.float32(0)
    c0 = c1 = c2 = c3 = c4 = c5 = d0 = d1 = d2 = d3 = d4 = d5 = np.float32(0)
    w0, w1, w2, w3, w4, w5 = w[n], w[n + 1], w[n + 2], w[n + 3], w[n + 4], w[n + 5]
    x0, x1, x2, x3 = x[m], x[m + 1], x[m + 2], x[m + 3]
    for k in range(w.shape[1]):
        a, b, c, d = x0[k], x1[k], x2[k], x3[k]
        v = w0[k]
        a0, b0, c0, d0 = a0 + a * v, b0 + b * v, c0 + c * v, d0 + d * v
        v = w1[k]
        a1, b1, c1, d1 = a1 + a * v, b1 + b * v, c1 + c * v, d1 + d * v
        v = w2[k]
        a2, b2, c2, d2 = a2 + a * v, b2 + b * v, c2 + c * v, d2 + d * v
        v = w3[k]
        a3, b3, c3, d3 = a3 + a * v, b3 + b * v, c3 + c * v, d3 + d * v
        v = w4[k]
        a4, b4, c4, d4 = a4 + a * v, b4 + b * v, c4 + c * v, d4 + d * v
        v = w5[k]
        a5, b5, c5, d5 = a5 + a * v, b5 + b * v, c5 + c * v, d5 + d * v
    _store(out[m], n, bias, a0, a1, a2, a3, a4, a5)
    _store(out[m + 1], n, bias, b0, b1, b2, b3, b4, b5)
    _store(out[m + 2], n, bias, c0, c1, c2, c3, c4, c5)
    _store(out[m + 3], n, bias, d0, d1, d2, d3, d4, d5)


@inlined
def _six_by_one(w: Any, n: Any, x: Any, m: Any, bias: Any, out: Any) -> None:
    a0 = a1 = a2 = a3 = a4 = a5 = np.float32(0)
    w0, w1, w2, w3, w4, w5 = w[n], w[n + 1], w[n + 2], w[n + 3], w[n + 4], w[n + 5]
    x0 = x[m]
    for k in range(w.shape[1]):
        a = x0[k]
        a0, a1, a2 = a0 + a * w0[k], a1 + a * w1[k], a2 + a * w2[k]
        a3, a4, a5 = a3 + a * w3[k], a4 + a * w4[k], a5 + a * w5[k]
    _store(out[m], n, bias, a0, a1, a2, a3, a4, a5)


@inlined
def _store(out: Any, n: Any, bias: Any, v0: Any, v1: Any, v2: Any, v3: Any, v4: Any, v5: Any) -> None:
    out[n], out[n + 1], out[n + 2] = v0 + bias[n], v1 + bias[n + 1], v2 + bias[n + 2]
    out[n + 3], out[n + 4], out[n + 5] = v3 + bias[n + 3], v4 + bias[n + 4], v5 + bias[n + 5]


@inlined
def _one(w: Any, n: Any, x: Any, m: Any, bias: Any, out: Any) -> None:
    total = np.float32(0)
    w0, x0 = w[n], x[m]
    for k in range(w.shape[1]):
        total += x0[k] * w0[k]
    out[m, n] = total + bias[n]


@inlined
def _ask_for(begin: Any, end: Any) -> None:
    for line in range(begin, end, 64):
        prefetch(line)


def _multiply(arguments: Any) -> None:
    rows, inputs, outputs, width = arguments[1], arguments[2], arguments[3], arguments[4]
    x = carray(pointer(arguments[5]), (rows, inputs), np.float32)
    w = carray(pointer(arguments[6]), (outputs, inputs), np.float32)
    bias = carray(pointer(arguments[7]), (outputs,), np.float32)
    out = carray(pointer(arguments[8]), (rows, outputs), np.float32)
    tiles = (rows + 3) // 4
    share = (6 * inputs // 16 + tiles - 1) // tiles * 64 if tiles > 1 else 0
    while True:
        n = ticket(arguments) * width
        if n >= outputs:
            break
        end = min(n + width, outputs)
        while n + 6 <= end:
            ahead = arguments[6] + (n + 6) * inputs * 4
            m = 0
            while m + 4 <= rows:
                _ask_for(ahead, ahead + share)
                ahead += share
                _six_by_four(w, n, x, m, bias, out)
                m += 4
            while m < rows:
                _six_by_one(w, n, x, m, bias, out)
                m += 1
            n += 6
        while n < end:
            for m in range(rows):
                _one(w, n, x, m, bias, out)
            n += 1


@cache
def _product() -> Kernel:
    return kernel(_multiply)


def prepare() -> None:
    """Compile ahead of the first step."""
    _product()


def product(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """`[rows, outputs]`: contiguous float32 `x [rows, inputs]`, `weight [outputs, inputs]`, `bias [outputs]`."""
    rows, inputs = x.shape
    outputs = weight.shape[0]
    out = torch.empty(rows, outputs)
    if rows == 0:
        return out
    width = max(MIN_WIDTH, -(-outputs // TASKS) // 6 * 6)
    run(
        _product(),
        -(-outputs // width),
        rows,
        inputs,
        outputs,
        width,
        x.data_ptr(),
        weight.data_ptr(),
        bias.data_ptr(),
        out.data_ptr(),
    )
    return out

"""`x [rows, inputs]` times a float32 weight `[outputs, inputs]` as it was read, for few rows.

A product of few rows costs what it takes to read the weight once: four of its rows meet four rows of `x` in
registers, and the next four are asked for meanwhile. Sums run along `inputs` in many parts, which rounds less
than one sum does. Plain twin: torch's `F.linear`.

Arguments: 1 rows, 2 inputs, 3 outputs, 4 outputs a task, 5 x, 6 weight, 7 bias `[outputs]`, 8 out `[rows, outputs]`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch
from numba import carray

from engine.kernels.team import inlined, kernel, pointer, prefetch, run, ticket

MAX_ROWS: Final = 64  # more rows are bound by arithmetic, where torch's own product is as fast
TASKS: Final = 16  # more than threads, so that one that was interrupted does not keep the others waiting


@inlined
def _four_by_four(w: Any, n: Any, x: Any, m: Any, bias: Any, out: Any) -> None:
    a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = np.float32(0)
    c0 = c1 = c2 = c3 = d0 = d1 = d2 = d3 = np.float32(0)
    w0, w1, w2, w3 = w[n], w[n + 1], w[n + 2], w[n + 3]
    x0, x1, x2, x3 = x[m], x[m + 1], x[m + 2], x[m + 3]
    for k in range(w.shape[1]):
        p, q, r, s = w0[k], w1[k], w2[k], w3[k]
        a, b, c, d = x0[k], x1[k], x2[k], x3[k]
        a0, a1, a2, a3 = a0 + a * p, a1 + a * q, a2 + a * r, a3 + a * s
        b0, b1, b2, b3 = b0 + b * p, b1 + b * q, b2 + b * r, b3 + b * s
        c0, c1, c2, c3 = c0 + c * p, c1 + c * q, c2 + c * r, c3 + c * s
        d0, d1, d2, d3 = d0 + d * p, d1 + d * q, d2 + d * r, d3 + d * s
    p, q, r, s = bias[n], bias[n + 1], bias[n + 2], bias[n + 3]
    out[m, n], out[m, n + 1], out[m, n + 2], out[m, n + 3] = a0 + p, a1 + q, a2 + r, a3 + s
    m += 1
    out[m, n], out[m, n + 1], out[m, n + 2], out[m, n + 3] = b0 + p, b1 + q, b2 + r, b3 + s
    m += 1
    out[m, n], out[m, n + 1], out[m, n + 2], out[m, n + 3] = c0 + p, c1 + q, c2 + r, c3 + s
    m += 1
    out[m, n], out[m, n + 1], out[m, n + 2], out[m, n + 3] = d0 + p, d1 + q, d2 + r, d3 + s


@inlined
def _four_by_one(w: Any, n: Any, x: Any, m: Any, bias: Any, out: Any) -> None:
    a0 = a1 = a2 = a3 = np.float32(0)
    w0, w1, w2, w3, x0 = w[n], w[n + 1], w[n + 2], w[n + 3], x[m]
    for k in range(w.shape[1]):
        a = x0[k]
        a0, a1, a2, a3 = a0 + a * w0[k], a1 + a * w1[k], a2 + a * w2[k], a3 + a * w3[k]
    out[m, n], out[m, n + 1] = a0 + bias[n], a1 + bias[n + 1]
    out[m, n + 2], out[m, n + 3] = a2 + bias[n + 2], a3 + bias[n + 3]


@inlined
def _one(w: Any, n: Any, x: Any, m: Any, bias: Any, out: Any) -> None:
    total = np.float32(0)
    w0, x0 = w[n], x[m]
    for k in range(w.shape[1]):
        total += x0[k] * w0[k]
    out[m, n] = total + bias[n]


@kernel
def _product(arguments: Any) -> None:
    rows, inputs, outputs, width = arguments[1], arguments[2], arguments[3], arguments[4]
    x = carray(pointer(arguments[5]), (rows, inputs), np.float32)
    w = carray(pointer(arguments[6]), (outputs, inputs), np.float32)
    bias = carray(pointer(arguments[7]), (outputs,), np.float32)
    out = carray(pointer(arguments[8]), (rows, outputs), np.float32)
    tiles = (rows + 3) // 4
    share = (16 * inputs // 64 + tiles - 1) // tiles * 64
    while True:
        begin = ticket(arguments) * width
        if begin >= outputs:
            break
        end = min(begin + width, outputs)
        n = begin
        while n + 4 <= end:
            ahead = arguments[6] + (n + 4) * inputs * 4
            m = 0
            while m < rows:
                if tiles > 1:
                    for line in range(ahead, ahead + share, 64):
                        prefetch(line)
                    ahead += share
                if m + 4 <= rows:
                    _four_by_four(w, n, x, m, bias, out)
                    m += 4
                else:
                    _four_by_one(w, n, x, m, bias, out)
                    m += 1
            n += 4
        while n < end:
            for m in range(rows):
                _one(w, n, x, m, bias, out)
            n += 1


def product(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """`[rows, outputs]`: contiguous float32 `x [rows, inputs]`, `weight [outputs, inputs]`, `bias [outputs]`."""
    rows, inputs = x.shape
    outputs = weight.shape[0]
    out = torch.empty(rows, outputs)
    width = max(16, (-(-outputs // TASKS) + 3) // 4 * 4)
    run(
        _product,
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

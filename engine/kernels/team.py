"""Runs a compiled loop on the threads of torch's own team, so that two pools never fight for the same cores.

A kernel is a C function of one argument: an array of int64. Entry 0 is the ticket that the threads draw their
tasks with, the rest are sizes and addresses, in the order the kernel's module documents.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final

import numba
import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from engine.kernels.compiled import kept

# Sums may be taken in any order and products fused into them: that is what lets a loop use vector registers.
REORDERED: Final = {"reassoc", "contract", "nsz"}
MAX_ARGUMENTS: Final = 24
_Arguments = ctypes.c_int64 * MAX_ARGUMENTS

# What a kernel's elements are in memory; bfloat16 is read as the upper half of a float32.
ELEMENTS: Final[dict[torch.dtype, Any]] = {torch.float32: np.float32, torch.bfloat16: np.uint16}


def usable(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether kernels exist for tensors of `dtype` on `device`, and may be compiled."""
    return device.type == "cpu" and dtype in ELEMENTS and not numba.config.DISABLE_JIT


class Kernel:
    """A compiled C function, and how to call it on this thread alone."""

    __slots__ = ("address", "alone", "compiled")

    def __init__(self, compiled: Any) -> None:
        self.compiled = compiled  # keeps the code in memory
        self.address: int = compiled.address
        self.alone = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.address)


def kernel(work: Callable[[Any], None]) -> Kernel:
    """Compile `work(arguments)` into a C function."""
    signature = types.void(types.CPointer(types.int64))
    return Kernel(kept(partial(numba.cfunc, signature, error_model="numpy"), work))


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a part of kernels whose sums may be reordered."""
    return numba.njit(fastmath=REORDERED, error_model="numpy")(function)


def exact(function: Callable[..., Any]) -> Any:
    """Compile a part of kernels whose operations stay in their order."""
    return numba.njit(error_model="numpy")(function)


def run(work: Kernel, tasks: int, *arguments: int) -> None:
    """Run a kernel with `arguments` from entry 1 on, alone if there is one task, else on every thread."""
    block = _Arguments(0, *arguments)
    threads = min(tasks, torch.get_num_threads())
    launch = _launcher() if threads > 1 else None
    if launch is None:
        work.alone(ctypes.addressof(block))
    else:
        launch(work.address, ctypes.addressof(block), threads, 0)


@cache
def _launcher() -> Any:
    """The entry of the OpenMP runtime that torch loaded, or None where it has another name."""
    for name in ("libgomp.so.1", "libomp.dylib", "libiomp5.so"):
        try:
            launch = ctypes.CDLL(name).GOMP_parallel
        except (OSError, AttributeError):
            continue
        launch.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        launch.restype = None
        return launch
    return None


@intrinsic
def ticket(_context: Any, _arguments: Any) -> Any:
    """The next number of entry 0, from 0 on: no two threads get the same."""

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.atomic_rmw("add", values[0], ir.Constant(ir.IntType(64), 1), "monotonic")

    return types.int64(types.CPointer(types.int64)), generate


@intrinsic
def pointer(_context: Any, _address: Any) -> Any:
    """An address as what `numba.carray` takes."""

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate


@intrinsic
def prefetch(_context: Any, _address: Any) -> Any:
    """Ask for the cache line at an address, which need not be mapped, to come as near as the second level."""

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        name = "llvm.prefetch.p0"
        function = builder.module.globals.get(name) or ir.Function(
            builder.module, ir.FunctionType(ir.VoidType(), [byte, word, word, word]), name
        )
        builder.call(function, [builder.inttoptr(values[0], byte), word(0), word(2), word(1)])
        return _context.get_dummy_value()

    return types.void(types.int64), generate


def bits(value: float) -> int:
    """A float64 as the int64 with the same bits, which is how a kernel gets it."""
    number: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return number

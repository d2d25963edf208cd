"""Memory for what every step reads: weights, keys and values, in pages of two megabytes where the system has them.

A weight's rows are streams of two kilobytes; with pages of four, looking up where they lie costs a quarter of the
time that reading them takes.
"""

from __future__ import annotations

import math
import mmap
from typing import Final

import torch

PAGE: Final = 2 << 20
LINE: Final = 64
CHUNK: Final = 64 << 20  # what is asked of the system at once; what stays unused of it is never touched


class Arena:
    """Hands out memory from one end to the other; it lives as long as a tensor that lies in it."""

    def __init__(self) -> None:
        self._chunk = torch.empty(0, dtype=torch.uint8)
        self._at = 0

    def empty(self, *shape: int, dtype: torch.dtype) -> torch.Tensor:
        """A contiguous CPU tensor, to be filled."""
        size = math.prod(shape) * dtype.itemsize
        if self._at + size > self._chunk.numel():
            self._chunk = _mapped(max(size, CHUNK))
            self._at = -self._chunk.data_ptr() % PAGE
        begin, self._at = self._at, -(-(self._at + size) // LINE) * LINE
        return self._chunk[begin : begin + size].view(dtype).view(shape)


def zeros(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    """A tensor of zeros on the CPU, its memory taken now. Raises OSError where the system refuses it."""
    size = math.prod(shape) * dtype.itemsize
    chunk = _mapped(max(1, size))
    begin = -chunk.data_ptr() % PAGE
    return chunk[begin : begin + size].view(dtype).view(shape).zero_()


def _mapped(size: int) -> torch.Tensor:
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.zeros(size + PAGE, dtype=torch.uint8)
    chunk = mmap.mmap(-1, size + PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    chunk.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(chunk, dtype=torch.uint8)

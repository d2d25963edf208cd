"""Where keys and values live: one tensor a layer, cut into blocks, addressed by slots and block tables.

Slot `block_table[p // block_size] * block_size + p % block_size` holds position p of a request. In memory a slot
is one row, its keys before its values, so that a step writes it with one copy and a block is read with one.
Memory starts as zeros: what a mask hides is still multiplied, and must be finite.
"""

from __future__ import annotations

import torch

from engine.errors import ModelError
from engine.kernels import memory


class KVTensors:
    """Keys and values of `num_layers` layers in `num_blocks` blocks, the null block included."""

    def __init__(
        self,
        num_layers: int,
        num_blocks: int,
        block_size: int,
        num_kv_heads: int,
        head_size: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.num_blocks, self.block_size = num_blocks, block_size
        self.num_kv_heads, self.head_size = num_kv_heads, head_size
        self._row = 2 * num_kv_heads * head_size
        try:
            self._layers = [
                memory.zeros(num_blocks, block_size * self._row, dtype=dtype)
                if device.type == "cpu"
                else torch.zeros(num_blocks, block_size * self._row, dtype=dtype, device=device)
                for _ in range(num_layers)
            ]
        except (RuntimeError, OSError, OverflowError, ValueError) as error:
            total = num_layers * num_blocks * block_size * self._row * dtype.itemsize
            raise ModelError(
                f"no memory for a KV cache of {total} bytes ({num_blocks} blocks): "
                "lower --num-gpu-blocks-override or --kv-cache-memory-bytes"
            ) from error
        self._slots = [layer.view(num_blocks * block_size, self._row) for layer in self._layers]

    def layer(self, index: int) -> torch.Tensor:
        """A layer's tensor as `[2, num_blocks, block_size, num_kv_heads, head_size]`: a view, keys first."""
        blocks = self._layers[index].view(
            self.num_blocks, self.block_size, 2, self.num_kv_heads, self.head_size
        )
        return blocks.permute(2, 0, 1, 3, 4)

    def address(self, index: int) -> int:
        """Where a layer's block 0 lies: `[num_blocks, block_size, 2, num_kv_heads, head_size]` follow one another."""
        address: int = self._layers[index].data_ptr()
        return address

    def write(self, layer: int, slots: torch.Tensor, kv: torch.Tensor) -> None:
        """Store `kv [num_tokens, 2, num_kv_heads, head_size]` in `slots [num_tokens]`."""
        self._slots[layer].index_copy_(0, slots, kv.view(kv.shape[0], self._row))

    def read(self, layer: int, tables: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of the blocks in `tables [rows, blocks]`, in order.

        Both are `[rows, num_kv_heads, blocks * block_size, head_size]`, views of one copy.
        """
        rows, blocks = tables.shape
        kv = self._layers[layer].index_select(0, tables.view(-1))
        kv = kv.view(rows, blocks * self.block_size, 2, self.num_kv_heads, self.head_size)
        return kv[:, :, 0].transpose(1, 2), kv[:, :, 1].transpose(1, 2)

"""Rotary positions: their angles, and turning queries and keys by them."""

from __future__ import annotations

from typing import Any

import torch

from engine.errors import ModelError
from engine.kernels import team
from engine.weights import shape_of


class Rotary:
    """Rotary positions: element i of a head turns together with element i + head_size / 2.

    `cos` and `sin` are `[positions, 1, head_size]`; the first half of `sin` is negated.
    """

    def __init__(self, config: Any, dtype: torch.dtype, device: torch.device) -> None:
        shape = shape_of(config, "")
        frequencies, scale = _frequencies(config, shape.head_size)
        positions = torch.arange(shape.max_position, dtype=torch.float32)
        angles = torch.outer(positions, frequencies)
        cos, sin = angles.cos() * scale, angles.sin() * scale
        self._cos = torch.cat((cos, cos), dim=-1)[:, None].to(device=device, dtype=dtype)
        self._sin = torch.cat((-sin, sin), dim=-1)[:, None].to(device=device, dtype=dtype)

    def at(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and signed sines `[num_tokens, 1, head_size]` for a step."""
        return self._cos.index_select(0, positions), self._sin.index_select(0, positions)


def rotate_(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> None:
    """Turn `x [num_tokens, heads, head_size]` in place."""
    if team.usable(x.dtype, x.device):
        from engine.kernels.rows import turn_

        turn_(x, cos, sin)
        return
    tokens, heads, head_size = x.shape
    swapped = x.view(tokens, heads, 2, head_size // 2).flip(2).view(tokens, heads, head_size)
    torch.addcmul(x * cos, swapped, sin, out=x)


def rotate_plainly_(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> None:
    """The plain twin of `rotate_`: both halves written out."""
    half = x.shape[-1] // 2
    first, second = x[..., :half].clone(), x[..., half:].clone()
    c, s = cos[..., half:], sin[..., half:]
    x[..., :half] = first * c - second * s
    x[..., half:] = second * c + first * s


ROPE_KINDS = ("default", "linear", "llama3", "yarn")


def check_rope(config: Any) -> None:
    """Raise ModelError for rotary positions whose angles depend on more than the position."""
    kind = (config.rope_parameters or {}).get("rope_type", "default")
    if kind not in ROPE_KINDS:
        raise ModelError(
            f"no rotary positions of kind {kind}: choose a model with one of {', '.join(ROPE_KINDS)}"
        )


def _frequencies(config: Any, head_size: int) -> tuple[torch.Tensor, float]:
    """Radians a position `[head_size / 2]`, and what the cosines and sines are multiplied by."""
    rope = config.rope_parameters or {}
    kind = rope.get("rope_type", "default")
    if kind == "default":
        exponents = torch.arange(0, head_size, 2, dtype=torch.int64).float() / head_size
        return 1.0 / (float(rope.get("rope_theta", 10_000.0)) ** exponents), 1.0
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    frequencies, scale = ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"))
    return frequencies, float(scale)

"""Parts that families share beside linear maps and rotary positions: activations, the RMS norm, the gated MLP."""

from __future__ import annotations

from typing import Final, Protocol

import torch
import torch.nn.functional as F

from engine.errors import ModelError
from engine.kernels import team
from engine.models.linear import Map

# An MLP takes this many rows at a time, so that what lies between its maps stays in the cache.
MLP_ROWS: Final = 512

_ACTIVATIONS: dict[str, Map] = {
    "relu": F.relu,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_pytorch_tanh": lambda x: F.gelu(x, approximate="tanh"),
}


def activation(name: str) -> Map:
    """The activation that a configuration names. Raises ModelError for another."""
    if name not in _ACTIVATIONS:
        raise ModelError(f"no activation {name}: choose a model with one of {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[name]


class Norm(Protocol):
    """The RMS norm of `x + delta`, `[rows, width]`; the sum stays in `x`."""

    def __call__(self, x: torch.Tensor, delta: torch.Tensor | None) -> torch.Tensor: ...


def make_rms_norm(weight: torch.Tensor, eps: float, *, plain: bool) -> Norm:
    """The RMS norm with `weight [width]`, in one pass where there is a kernel for it."""
    if not plain and team.usable(weight.dtype, weight.device):
        from engine.kernels.rows import rms_norm

        bits = team.bits(eps)
        return lambda x, delta: rms_norm(x, delta, weight, bits)

    def norm(x: torch.Tensor, delta: torch.Tensor | None) -> torch.Tensor:
        return F.rms_norm(x if delta is None else x.add_(delta), weight.shape, weight, eps)

    return norm


class GatedMLP:
    """`down(act(gate) * up)` of rows, with gate and up in one map."""

    def __init__(self, gate_up: Map, down: Map, act: str, *, plain: bool) -> None:
        self._gate_up, self._down = gate_up, down
        self._gate = _make_gate(act, plain=plain)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] <= MLP_ROWS:
            return self._down(self._gate(self._gate_up(x)))
        return torch.cat([self(part) for part in x.split(MLP_ROWS)])


def _make_gate(act: str, *, plain: bool) -> Map:
    activate = activation(act)

    def gate(both: torch.Tensor) -> torch.Tensor:
        first, second = both.chunk(2, dim=-1)
        return activate(first).mul_(second)

    if plain or act != "silu":
        return gate
    from engine.kernels.rows import silu_gate

    return lambda both: silu_gate(both) if team.usable(both.dtype, both.device) else gate(both)

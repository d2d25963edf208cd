"""Linear maps: read one by one or fused, multiplied by whatever is fastest for their dtype and device."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F

from engine.kernels import team
from engine.weights import Weights

Map = Callable[[torch.Tensor], torch.Tensor]


class Linear:
    """`x [rows, inputs]` to `[rows, outputs]`, the weight `[outputs, inputs]` as it was read."""

    __slots__ = ("bias", "weight")

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self.weight, self.bias = weight, bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight, self.bias)


class PackedLinear:
    """As Linear, the weight reordered once for oneDNN, which otherwise happens in every call."""

    __slots__ = ("_apply", "_bias", "_packed")

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight, None)
        self._apply = torch.ops.mkldnn._linear_pointwise
        self._bias = bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self._apply(x, self._packed, self._bias, "none", [], "")
        return out

    @staticmethod
    def fits(weight: torch.Tensor) -> bool:
        """Whether this build of torch on this machine can pack `weight`."""
        if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
            return False
        operations = torch.ops.mkldnn
        if not (hasattr(operations, "_reorder_linear_weight") and hasattr(operations, "_linear_pointwise")):
            return False
        return weight.dtype == torch.bfloat16 and bool(operations._is_mkldnn_bf16_supported())


class _Step(threading.local):
    """What the maps know of the step that this thread computes."""

    decodes = False


_step = _Step()


def expect(*, decodes: bool) -> None:
    """Say whether all rows of the coming step are decode rows."""
    _step.decodes = decodes


class FewRowsLinear:
    """As Linear in float32 on a CPU: decode rows, or the rows of `last`, meet the weight in the engine's own product.

    Prompts keep torch's, which is what transformers multiplies with: what a prompt's first tokens amplify of a
    difference in rounding can exceed 2e-4, although the own product is nearer to float64.
    """

    __slots__ = ("_addend", "_bias", "_last", "_product", "_weight")

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, *, last: bool) -> None:
        from engine.kernels import product

        self._product = product
        self._weight = weight
        self._bias = bias
        self._addend = torch.zeros(weight.shape[0]) if bias is None else bias.contiguous()
        self._last = last

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] <= self._product.MAX_ROWS and (_step.decodes or self._last):
            return self._product.product(x.contiguous(), self._weight, self._addend)
        return F.linear(x, self._weight, self._bias)

    @staticmethod
    def fits(weight: torch.Tensor) -> bool:
        """Whether `weight` is what the product takes."""
        return weight.dtype == torch.float32 and team.usable(weight.dtype, weight.device)


def make_linear(weight: torch.Tensor, bias: torch.Tensor | None, *, plain: bool, last: bool = False) -> Map:
    """The fastest map of a weight in its dtype on its device, or the plain one; `last` says that logits follow.

    oneDNN's order of addition, one sum from end to end, is kept from float32: its rounding alone can exceed the
    2e-4 that logits may differ by from transformers'.
    """
    if not plain and FewRowsLinear.fits(weight):
        return FewRowsLinear(weight, bias, last=last)
    if not plain and PackedLinear.fits(weight):
        return PackedLinear(weight, bias)
    return Linear(weight, bias)


def load_linear(weights: Weights, name: str, outputs: int, inputs: int, *, bias: bool, plain: bool) -> Map:
    """The map `name` with its weight `[outputs, inputs]`, and bias where the family has one."""
    weight = weights.stack([(f"{name}.weight", outputs)], inputs)
    return make_linear(weight, weights.take(f"{name}.bias", outputs) if bias else None, plain=plain)


def load_joined(
    weights: Weights, names: Sequence[tuple[str, int]], inputs: int, *, bias: bool, plain: bool
) -> Map:
    """Several maps (name, outputs) of the same input whose outputs follow one another.

    Fused into one weight, or with `plain` computed one by one.
    """
    if plain:
        maps = [load_linear(weights, name, outputs, inputs, bias=bias, plain=True) for name, outputs in names]
        return lambda x: torch.cat([one(x) for one in maps], dim=-1)
    weight = weights.stack([(f"{name}.weight", outputs) for name, outputs in names], inputs)
    biases = [weights.take(f"{name}.bias", outputs) for name, outputs in names] if bias else []
    return make_linear(weight, torch.cat(biases) if biases else None, plain=False)

"""Parts that families share: linear maps that are fused or not, activations, rotary positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from engine.model_folder import ModelError
from engine.weights import Weights, shape_of

Map = Callable[[torch.Tensor], torch.Tensor]

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
        if weight.dtype == torch.bfloat16:
            return bool(operations._is_mkldnn_bf16_supported())
        return bool(weight.dtype == torch.float32)


def make_linear(weight: torch.Tensor, bias: torch.Tensor | None, *, plain: bool, last: bool = False) -> Map:
    """The map of a weight, packed where that pays and is safe; `plain` never packs, `last` says that logits follow.

    A packed product adds in another order than transformers' does. In float32 a layer may turn that into more
    than the 2e-4 that the logits may differ by (prompts of random ids reach 4e-3, float64 being as far from
    transformers), so only the last product, which nothing amplifies, is packed there.
    """
    wanted = not plain and (last or weight.dtype != torch.float32)
    if wanted and PackedLinear.fits(weight):
        return PackedLinear(weight, bias)
    return Linear(weight, bias)


def load_linear(weights: Weights, name: str, outputs: int, inputs: int, *, bias: bool, plain: bool) -> Map:
    """The map `name` with its weight `[outputs, inputs]`, and bias where the family has one."""
    return make_linear(*_take(weights, name, outputs, inputs, bias), plain=plain)


def load_joined(
    weights: Weights, names: Sequence[tuple[str, int]], inputs: int, *, bias: bool, plain: bool
) -> Map:
    """Several maps (name, outputs) of the same input whose outputs follow one another.

    Fused into one weight, or with `plain` computed one by one.
    """
    parts = [_take(weights, name, outputs, inputs, bias) for name, outputs in names]
    if plain:
        maps = [Linear(*part) for part in parts]
        return lambda x: torch.cat([one(x) for one in maps], dim=-1)
    biases = [part[1] for part in parts if part[1] is not None]
    weight = torch.cat([part[0] for part in parts])
    return make_linear(weight, torch.cat(biases) if biases else None, plain=False)


def _take(
    weights: Weights, name: str, outputs: int, inputs: int, bias: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    weight = weights.take(f"{name}.weight", outputs, inputs)
    return weight, weights.take(f"{name}.bias", outputs) if bias else None


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

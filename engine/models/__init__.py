"""The families of models, one a file: a module of this package registers the architectures that it computes.

A family reads its own weights and knows nothing of blocks: it hands queries, keys and values of a layer to
`attend`, which answers what attention gives. To add one, add a file that calls `register`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import torch

from engine.families import check_computed
from engine.weights import Weights

Attend = Callable[[int, torch.Tensor, torch.Tensor], torch.Tensor]
"""`(layer, q [num_tokens, num_heads, head_size], kv [num_tokens, 2, num_kv_heads, head_size])` to
`[num_tokens, num_heads * head_size]`."""


class Model(Protocol):
    """A decoder-only model, its weights loaded."""

    def hidden(self, token_ids: torch.Tensor, positions: torch.Tensor, attend: Attend) -> torch.Tensor:
        """The last layer's output `[num_tokens, hidden_size]` for `token_ids` and `positions` `[num_tokens]`."""
        ...

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """`[rows, vocab_size]` in the model's dtype for `hidden [rows, hidden_size]`."""
        ...


class Family(Protocol):
    """Makes a model. `plain` takes the plain twin of each fast path."""

    def __call__(self, config: Any, weights: Weights, plain: bool) -> Model: ...

    def check(self, config: Any) -> None:
        """Raise ModelError for what the configuration asks and the family does not compute."""
        ...


_FAMILIES: dict[str, Family] = {}
_F = TypeVar("_F", bound=Callable[..., Any])


def register(*architectures: str) -> Callable[[_F], _F]:
    """Class decorator: this family computes `architectures`, names of transformers' classes."""

    def note(family: _F) -> _F:
        for name in architectures:
            _FAMILIES[name] = family  # type: ignore[assignment]
        return family

    return note


def families() -> dict[str, Family]:
    """Every architecture that a module of this package registers."""
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    return dict(_FAMILIES)


def family_of(config: Any) -> Family:
    """The family that computes `config`'s architecture. Raises ModelError when none does, before weights load."""
    names = getattr(config, "architectures", None)
    architecture = str(names[0]) if names else None
    known = families()
    check_computed(architecture, bool(getattr(config, "quantization_config", None)), known)
    family = known[str(architecture)]
    family.check(config)
    return family

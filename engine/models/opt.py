"""OPT: learned positions, layer norms before or after, biases everywhere, plain multi-head attention."""

from __future__ import annotations

from typing import Any, Final

import torch
import torch.nn.functional as F

from engine.models import Attend, register
from engine.models.layers import activation
from engine.models.linear import Map, load_joined, load_linear, make_linear
from engine.weights import Weights

# The first rows of OPT's table of positions stand for padding and are never used.
POSITION_OFFSET: Final = 2


def _load_norm(config: Any, weights: Weights, name: str) -> Map:
    """The layer norm `name`, with weight and bias where the configuration has them."""
    size = config.hidden_size
    weight = bias = None
    if config.layer_norm_elementwise_affine:
        weight, bias = weights.take(f"{name}.weight", size), weights.take(f"{name}.bias", size)
    return lambda x: F.layer_norm(x, (size,), weight, bias)


class _Layer:
    """One decoder layer; `index` is its place, which the KV tensors go by."""

    def __init__(self, index: int, config: Any, weights: Weights, plain: bool) -> None:
        size, mlp, bias = config.hidden_size, config.ffn_dim, config.enable_bias
        at = f"decoder.layers.{index}"
        self.index = index
        self.attention_norm = _load_norm(config, weights, f"{at}.self_attn_layer_norm")
        self.mlp_norm = _load_norm(config, weights, f"{at}.final_layer_norm")
        names = [(f"{at}.self_attn.{one}_proj", size) for one in ("q", "k", "v")]
        self.qkv = load_joined(weights, names, size, bias=bias, plain=plain)
        self.out = load_linear(weights, f"{at}.self_attn.out_proj", size, size, bias=bias, plain=plain)
        self.up = load_linear(weights, f"{at}.fc1", mlp, size, bias=bias, plain=plain)
        self.down = load_linear(weights, f"{at}.fc2", size, mlp, bias=bias, plain=plain)


@register("OPTForCausalLM")
class OPT:
    """See engine.models.Model."""

    def __init__(self, config: Any, weights: Weights, plain: bool) -> None:
        size, embedded, vocab = config.hidden_size, config.word_embed_proj_dim, config.vocab_size
        self._heads = config.num_attention_heads
        self._act = activation(config.activation_function)
        self._norm_first = config.do_layer_norm_before
        self._embed = weights.stack([("decoder.embed_tokens.weight", vocab)], embedded)
        self._positions = weights.take(
            "decoder.embed_positions.weight", config.max_position_embeddings + POSITION_OFFSET, size
        )
        self._project_in: Map | None = None
        self._project_out: Map | None = None
        if embedded != size:
            self._project_in = load_linear(
                weights, "decoder.project_in", size, embedded, bias=False, plain=plain
            )
            self._project_out = load_linear(
                weights, "decoder.project_out", embedded, size, bias=False, plain=plain
            )
        self._layers = [_Layer(i, config, weights, plain) for i in range(config.num_hidden_layers)]
        self._norm: Map | None = None
        if config.do_layer_norm_before and not config._remove_final_layer_norm:
            self._norm = _load_norm(config, weights, "decoder.final_layer_norm")
        head = self._embed
        if not config.tie_word_embeddings:
            head = weights.stack([("lm_head.weight", vocab)], embedded)
        self._head = make_linear(head, None, plain=plain, last=True)

    @staticmethod
    def check(config: Any) -> None:
        """See engine.models.Family."""
        activation(config.activation_function)

    def hidden(self, token_ids: torch.Tensor, positions: torch.Tensor, attend: Attend) -> torch.Tensor:
        """See engine.models.Model."""
        x = F.embedding(token_ids, self._embed)
        if self._project_in is not None:
            x = self._project_in(x)
        x = x + F.embedding(positions + POSITION_OFFSET, self._positions)
        for layer in self._layers:
            x = self._one(layer, x, attend)
        if self._norm is not None:
            x = self._norm(x)
        return x if self._project_out is None else self._project_out(x)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """See engine.models.Model."""
        return self._head(hidden)

    def _one(self, layer: _Layer, x: torch.Tensor, attend: Attend) -> torch.Tensor:
        tokens, size = x.shape
        heads, first = self._heads, self._norm_first
        rows = layer.qkv(layer.attention_norm(x) if first else x)
        q = rows[:, :size].view(tokens, heads, size // heads)
        kv = rows[:, size:].view(tokens, 2, heads, size // heads)
        x = layer.out(attend(layer.index, q, kv)).add_(x)
        x = x if first else layer.attention_norm(x)
        x = layer.down(self._act(layer.up(layer.mlp_norm(x) if first else x))).add_(x)
        return x if first else layer.mlp_norm(x)

"""Llama and what shares its architecture, SmolLM2 among them.

RMS norms, rotary positions, grouped-query attention, a gated MLP.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from engine.models import Attend, register
from engine.models.layers import GatedMLP, activation, make_rms_norm
from engine.models.linear import load_joined, load_linear, make_linear
from engine.models.rotary import Rotary, check_rope, rotate_, rotate_plainly_
from engine.weights import Weights, shape_of


class _Layer:
    """One decoder layer; `index` is its place, which the KV tensors go by."""

    def __init__(self, index: int, config: Any, weights: Weights, plain: bool) -> None:
        hidden, mlp = config.hidden_size, config.intermediate_size
        shape = shape_of(config, "")
        q_size = config.num_attention_heads * shape.head_size
        kv_size = shape.num_kv_heads * shape.head_size
        at = f"layers.{index}"
        self.index = index
        eps = config.rms_norm_eps
        self.input_norm = make_rms_norm(
            weights.take(f"{at}.input_layernorm.weight", hidden), eps, plain=plain
        )
        self.mlp_norm = make_rms_norm(
            weights.take(f"{at}.post_attention_layernorm.weight", hidden), eps, plain=plain
        )
        self.qkv = load_joined(
            weights,
            [
                (f"{at}.self_attn.q_proj", q_size),
                (f"{at}.self_attn.k_proj", kv_size),
                (f"{at}.self_attn.v_proj", kv_size),
            ],
            hidden,
            bias=config.attention_bias,
            plain=plain,
        )
        self.out = load_linear(
            weights, f"{at}.self_attn.o_proj", hidden, q_size, bias=config.attention_bias, plain=plain
        )
        gate_up = load_joined(
            weights,
            [(f"{at}.mlp.gate_proj", mlp), (f"{at}.mlp.up_proj", mlp)],
            hidden,
            bias=config.mlp_bias,
            plain=plain,
        )
        down = load_linear(weights, f"{at}.mlp.down_proj", hidden, mlp, bias=config.mlp_bias, plain=plain)
        self.mlp = GatedMLP(gate_up, down, config.hidden_act, plain=plain)


@register("LlamaForCausalLM")
class Llama:
    """See engine.models.Model."""

    def __init__(self, config: Any, weights: Weights, plain: bool) -> None:
        shape = shape_of(config, "")
        self._heads, self._kv_heads, self._head_size = (
            config.num_attention_heads,
            shape.num_kv_heads,
            shape.head_size,
        )
        self._rotate = rotate_plainly_ if plain else rotate_
        hidden = config.hidden_size
        self._embed = weights.stack([("embed_tokens.weight", config.vocab_size)], hidden)
        self._layers = [_Layer(i, config, weights, plain) for i in range(config.num_hidden_layers)]
        self._norm = make_rms_norm(weights.take("norm.weight", hidden), config.rms_norm_eps, plain=plain)
        head = self._embed
        if not config.tie_word_embeddings:
            head = weights.stack([("lm_head.weight", config.vocab_size)], hidden)
        self._head = make_linear(head, None, plain=plain, last=True)
        self._rotary = Rotary(config, self._embed.dtype, self._embed.device)

    @staticmethod
    def check(config: Any) -> None:
        """See engine.models.Family."""
        activation(config.hidden_act)
        check_rope(config)

    def hidden(self, token_ids: torch.Tensor, positions: torch.Tensor, attend: Attend) -> torch.Tensor:
        """See engine.models.Model."""
        cos, sin = self._rotary.at(positions)
        x = F.embedding(token_ids, self._embed)
        delta: torch.Tensor | None = None
        for layer in self._layers:
            attended = self._attend(layer, layer.input_norm(x, delta), cos, sin, attend)
            delta = layer.mlp(layer.mlp_norm(x, layer.out(attended)))
        return self._norm(x, delta)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """See engine.models.Model."""
        return self._head(hidden)

    def _attend(
        self, layer: _Layer, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, attend: Attend
    ) -> torch.Tensor:
        heads, kv_heads, size = self._heads, self._kv_heads, self._head_size
        rows = layer.qkv(x).view(x.shape[0], heads + 2 * kv_heads, size)
        self._rotate(rows[:, : heads + kv_heads], cos, sin)
        return attend(layer.index, rows[:, :heads], rows[:, heads:].view(x.shape[0], 2, kv_heads, size))

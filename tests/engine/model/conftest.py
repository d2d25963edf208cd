"""Small models with random weights, saved once a run, and what transformers says of them.

Their weights are far wider than a trained model's start, so that logits spread and the best token is clear.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.model_files import make_tiny_opt
from engine.model_runner import ModelRunner

Reference = Callable[[list[int]], Any]
MakeRunner = Callable[..., ModelRunner]


def _save_llama(folder: Path, **changes: Any) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    values = {
        "vocab_size": 384,
        "hidden_size": 96,
        "intermediate_size": 160,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 512,
        "initializer_range": 0.15,
        "tie_word_embeddings": True,
    }
    _save(LlamaForCausalLM, LlamaConfig(**values | changes), folder)


def _save_odd_llama(folder: Path) -> None:
    """Biases, a head of its own, stretched rotary positions, heads wider than hidden_size / heads."""
    rope = {
        "rope_type": "llama3",
        "rope_theta": 500.0,
        "factor": 4.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    _save_llama(
        folder,
        attention_bias=True,
        mlp_bias=True,
        tie_word_embeddings=False,
        head_dim=32,
        rope_parameters=rope,
    )


def _save_stretched_llama(folder: Path) -> None:
    """Positions stretched eight times beyond the 64 of `max_position_embeddings`."""
    rope = {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 8.0}
    _save_llama(folder, max_position_embeddings=64, rope_parameters=rope)


def _save_odd_opt(folder: Path) -> None:
    """Norms after the layers, embeddings narrower than the layers."""
    from transformers import OPTConfig, OPTForCausalLM

    config = OPTConfig(
        vocab_size=384,
        hidden_size=64,
        word_embed_proj_dim=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=96,
        max_position_embeddings=512,
        init_std=0.2,
        do_layer_norm_before=False,
        activation_function="gelu",
    )
    _save(OPTForCausalLM, config, folder)


def _save(kind: Any, config: Any, folder: Path) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = kind(config)
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                torch.nn.init.normal_(parameter, std=0.1)
    model.save_pretrained(folder)


SAVERS: dict[str, Callable[[Path], None]] = {
    "tiny-opt": make_tiny_opt,
    "odd-opt": _save_odd_opt,
    "llama": _save_llama,
    "odd-llama": _save_odd_llama,
    "stretched-llama": _save_stretched_llama,
}


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a model of SAVERS, made when it is first asked for."""
    made: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in made:
            folder = tmp_path_factory.mktemp("models") / name
            SAVERS[name](folder)
            made[name] = folder
        return made[name]

    return get


@pytest.fixture(scope="session", params=sorted(SAVERS))
def folder(request: pytest.FixtureRequest, folder_of: Callable[[str], Path]) -> Path:
    return folder_of(request.param)


@pytest.fixture(scope="session")
def reference(folder: Path) -> Reference:
    """transformers' float32 logits `[len(token_ids), vocab_size]` for token ids."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def logits(token_ids: list[int]) -> Any:
        with torch.inference_mode():
            return model(torch.tensor([token_ids])).logits[0]

    return logits


@pytest.fixture
def make_runner(folder: Path) -> MakeRunner:
    """A runner on the model, with 64 blocks of 16 unless said."""

    def make(num_blocks: int = 64, *, dtype: str = "float32", plain: bool = False) -> ModelRunner:
        return ModelRunner.load(folder, dtype, "cpu", num_blocks, 16, 2048, plain)

    return make

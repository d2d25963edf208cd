"""A model that cannot be used says so in one line, and before its weights are read where that can be known."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.errors import ModelError
from engine.model_runner import ModelRunner, Row
from engine.shape import read_facts
from engine.weights import read_config, shape_of

pytestmark = pytest.mark.model

FolderOf = Callable[[str], Path]


def load(folder: Path | str, **changes: Any) -> ModelRunner:
    values: dict[str, Any] = {"dtype": "float32", "device": "cpu", "num_blocks": 8, "block_size": 16}
    return ModelRunner.load(folder, max_num_batched_tokens=64, **values | changes)


def refusal(folder: Path | str, **changes: Any) -> str:
    with pytest.raises(ModelError) as raised:
        load(folder, **changes)
    message = str(raised.value)
    assert "\n" not in message
    return message


@pytest.fixture
def copy_of(folder_of: FolderOf, tmp_path: Path) -> Callable[..., Path]:
    """A copy of a model with changed keys of its config.json, and its weights unreadable unless `whole`."""

    def make(name: str, *, whole: bool = False, **changes: Any) -> Path:
        folder = tmp_path / "copy"
        shutil.copytree(folder_of(name), folder)
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
        if not whole:
            (folder / "model.safetensors").write_bytes(b"not weights")
        return folder

    return make


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"architectures": ["MambaForCausalLM"]}, ["MambaForCausalLM", "LlamaForCausalLM, OPTForCausalLM"]),
        ({"architectures": None}, ["names no architecture"]),
        ({"model_type": "no-such-type"}, ["config.json", "no-such-type"]),
        ({"hidden_act": "cosine"}, ["no activation cosine", "silu"]),
        ({"quantization_config": {"quant_method": "awq"}}, ["quantised"]),
        ({"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}}, ["dynamic"]),
    ],
)
def test_what_the_configuration_asks_in_vain_is_refused_before_weights_are_read(
    copy_of: Callable[..., Path], changes: dict[str, Any], words: list[str]
) -> None:
    message = refusal(copy_of("llama", **changes))

    assert all(word in message for word in words), message


def test_unreadable_weights(copy_of: Callable[..., Path]) -> None:
    assert "model.safetensors cannot be read" in refusal(copy_of("llama"))


def test_a_missing_weight_and_a_weight_of_another_shape(copy_of: Callable[..., Path]) -> None:
    folder = copy_of("llama", whole=True)
    path = folder / "model.safetensors"
    tensors = load_file(path)

    save_file({name: one for name, one in tensors.items() if name != "model.norm.weight"}, path)
    missing = refusal(folder)
    save_file(tensors | {"model.norm.weight": torch.ones(95)}, path)
    misshapen = refusal(folder)

    assert "lacks the weight norm.weight" in missing
    assert "model.norm.weight has shape [95]" in misshapen
    assert "asks for [96]" in misshapen


def test_weights_in_several_files_and_names_without_prefix_are_the_same_model(
    copy_of: Callable[..., Path], folder_of: FolderOf
) -> None:
    folder = copy_of("tiny-opt", whole=True)
    path = folder / "model.safetensors"
    tensors = {name.removeprefix("model."): tensor for name, tensor in load_file(path).items()}
    names = sorted(tensors)
    parts = {"model-1.safetensors": names[:9], "model-2.safetensors": names[9:]}
    for file, part in parts.items():
        save_file({name: tensors[name] for name in part}, folder / file)
    path.unlink()
    index = {"weight_map": {name: file for file, part in parts.items() for name in part}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    row = Row("a", [5, 6, 7], 0, [1])

    split, whole = load(folder).execute([row]), load(folder_of("tiny-opt")).execute([row])

    assert torch.equal(split.last, whole.last)
    (folder / "model-2.safetensors").unlink()
    assert "lacks model-2.safetensors" in refusal(folder)


def test_an_impossible_dtype_device_or_amount_of_memory(folder_of: FolderOf) -> None:
    folder = folder_of("tiny-opt")

    assert "no dtype int8: choose one of float32" in refusal(folder, dtype="int8")
    assert "no device tpu: choose cpu or cuda" in refusal(folder, device="tpu")
    # 2 (K and V) x 128 (4 heads of 32) x 4 bytes x 16 tokens x 2 layers = 32,768 bytes a block
    message = refusal(folder, num_blocks=1 << 40)
    assert f"no memory for a KV cache of {32_768 << 40} bytes" in message


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_where_there_is_none(folder_of: FolderOf) -> None:
    assert "no CUDA device is there" in refusal(folder_of("tiny-opt"), device="cuda")


@pytest.mark.parametrize(
    ("rope", "limit"),
    [
        ({"rope_type": "default", "rope_theta": 1e4}, 512),
        ({"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}, 2048),
        (
            {
                "rope_type": "yarn",
                "factor": 4.0,
                "rope_theta": 1e4,
                "original_max_position_embeddings": 128,
            },
            512,
        ),
    ],
)
def test_the_shape_for_the_start_up_arithmetic(
    copy_of: Callable[..., Path], rope: dict[str, Any], limit: int
) -> None:
    folder = copy_of("llama", rope_parameters=rope)
    shape = shape_of(read_config(folder), "copy")

    assert shape == read_facts(folder).shape
    assert (shape.num_layers, shape.num_kv_heads, shape.head_size) == (3, 2, 16)
    assert (shape.max_position, shape.vocab_size) == (limit, 384)

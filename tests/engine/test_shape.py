"""A model's shape from its config.json alone, and what is wrong with one in a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ModelError, UsageError
from engine.shape import parse_shape, read_facts
from engine.wire import ModelShape

LLAMA = {
    "hidden_size": 576,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "num_hidden_layers": 30,
    "max_position_embeddings": 8192,
    "vocab_size": 49152,
    "dtype": "bfloat16",
}


def model(folder: Path, **changes: Any) -> Path:
    values = {key: value for key, value in (LLAMA | changes).items() if value is not None}
    (folder / "config.json").write_text(json.dumps(values))
    return folder


def test_the_shape_is_what_the_configuration_says(tmp_path: Path) -> None:
    facts = read_facts(model(tmp_path))

    assert facts.shape == ModelShape(tmp_path.name, 30, 3, 64, 8192, 49152)
    assert facts.dtype == "bfloat16"


def test_what_a_configuration_leaves_out_has_its_usual_value(tmp_path: Path) -> None:
    facts = read_facts(model(tmp_path, num_key_value_heads=None, dtype=None))

    assert (facts.shape.num_kv_heads, facts.dtype) == (9, "float32")
    assert read_facts(model(tmp_path, head_dim=128)).shape.head_size == 128
    assert read_facts(model(tmp_path, dtype=None, torch_dtype="float16")).dtype == "float16"


@pytest.mark.parametrize(
    ("rope", "limit"),
    [
        ({"rope_type": "linear", "factor": 2.0}, 16384),
        ({"rope_type": "llama3", "factor": 8.0}, 8192),
        ({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1000}, 4000),
    ],
)
def test_rope_scaling_moves_the_limit(tmp_path: Path, rope: dict[str, Any], limit: int) -> None:
    assert read_facts(model(tmp_path, rope_scaling=rope)).shape.max_position == limit


@pytest.mark.parametrize(
    "rope",
    ["linear", ["linear"], {"rope_type": "linear", "factor": "x"}, {"rope_type": "linear", "factor": [2]},
     {"rope_type": "linear", "factor": -1.0}, {"rope_type": "linear", "factor": 1e308}],
)  # fmt: skip
def test_a_scaling_of_rope_that_cannot_be_is_refused(tmp_path: Path, rope: Any) -> None:
    with pytest.raises(ModelError, match="decoder-only"):
        read_facts(model(tmp_path, rope_scaling=rope))


@pytest.mark.parametrize("key", ["hidden_size", "num_attention_heads", "num_hidden_layers", "vocab_size"])
@pytest.mark.parametrize("value", [None, 0, -1, "9", True])
def test_a_number_that_cannot_be_is_named(tmp_path: Path, key: str, value: Any) -> None:
    with pytest.raises(ModelError, match=key) as refusal:
        read_facts(model(tmp_path, **{key: value}))

    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000])
def test_a_file_that_is_no_configuration(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)

    with pytest.raises(ModelError, match="JSON"):
        read_facts(tmp_path)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        read_facts(tmp_path / "nowhere")


def test_a_shape_on_the_command_line() -> None:
    shape = parse_shape("layers=12, kv-heads=12,head-size=64,max-position=2048")

    assert (shape.num_layers, shape.num_kv_heads, shape.head_size, shape.max_position) == (12, 12, 64, 2048)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "layers",
        "layers=0,kv-heads=1",
        "heads=3",
        "layers=x",
        f"layers={'9' * 5000}",
        "layers=1,kv-heads=1,head-size=8",
    ],
)
def test_a_shape_that_is_none_shows_how_to_write_it(text: str) -> None:
    with pytest.raises(UsageError, match="write it like layers=12"):
        parse_shape(text)

"""A model's shape from its `config.json` alone, so that start-up arithmetic needs neither torch nor transformers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from engine.errors import UsageError
from engine.wire import KV_BYTES, ModelShape

SHAPE_KEYS = {
    "layers": "num_layers",
    "kv-heads": "num_kv_heads",
    "head-size": "head_size",
    "max-position": "max_position",
}
SHAPE_EXAMPLE = "layers=12,kv-heads=12,head-size=64,max-position=2048"


class ModelFacts(msgspec.Struct, frozen=True):
    """What a configuration says: its shape, and the dtype of its weights (`float32` where it names none)."""

    shape: ModelShape
    dtype: str


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file. Raises UsageError that names the file and what is wrong with it."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON", hint="restore the model's folder") from error
    if not isinstance(value, dict):
        raise UsageError(f"{path} is not a JSON object", hint="restore the model's folder")
    return value


def read_facts(folder: Path) -> ModelFacts:
    """Shape and dtype of the model in `folder`.

    Mirrors vllm/transformers_utils/model_arch_config_convertor.py::ModelArchConfigConvertorBase. Raises UsageError.
    """
    path = folder / "config.json"
    config = read_json(path)
    try:
        heads = _count(config, "num_attention_heads")
        hidden = _count(config, "hidden_size")
        kv_heads = _count(config, "num_key_value_heads", heads)
        shape = ModelShape(
            name=folder.resolve().name,
            num_layers=_count(config, "num_hidden_layers"),
            num_kv_heads=kv_heads,
            head_size=_count(config, "head_dim", hidden // heads),
            max_position=_max_position(config),
            vocab_size=_count(config, "vocab_size"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"{path} is not the configuration of a decoder-only model: {error}",
            hint="use a model of a family in engine/models/",
        ) from error
    named = str(config.get("dtype") or config.get("torch_dtype") or "float32")
    return ModelFacts(shape, named if named in KV_BYTES else "float32")


def parse_shape(text: str) -> ModelShape:
    """A shape as written on the command line, such as SHAPE_EXAMPLE. Raises UsageError."""
    given: dict[str, int] = {}
    for part in text.split(","):
        key, _, value = part.strip().partition("=")
        if key not in SHAPE_KEYS or not re.fullmatch("0*[1-9][0-9]{0,11}", value):
            raise UsageError(f"--shape does not take {part.strip()!r}", hint=f"write it like {SHAPE_EXAMPLE}")
        given[SHAPE_KEYS[key]] = int(value)
    missing = [key for key, name in SHAPE_KEYS.items() if name not in given]
    if missing:
        raise UsageError(f"--shape lacks {', '.join(missing)}", hint=f"write it like {SHAPE_EXAMPLE}")
    return ModelShape(name="shape", vocab_size=1, **given)


def _count(config: Mapping[str, Any], key: str, default: int | None = None) -> int:
    """A whole number of at least 1. Raises ValueError that names the key."""
    value = config.get(key)
    value = default if value is None else value
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{key} is {value!r}, not a whole number of at least 1")
    return value


def _max_position(config: Mapping[str, Any]) -> int:
    """Tokens of the longest request, the scaling of rope included.

    Mirrors vllm/config/model.py::_get_and_verify_max_len for one kind of rope.
    """
    limit = _count(config, "max_position_embeddings")
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind in ("default", "llama3", "longrope", "su"):
        return limit
    if kind == "yarn":
        limit = int(rope.get("original_max_position_embeddings") or limit)
    return int(limit * float(rope.get("factor") or 1.0))

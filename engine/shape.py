"""A model's shape from its configuration, so that start-up arithmetic needs neither torch nor transformers.

The model's own code asks the same function of the configuration that transformers reads (engine/weights.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from engine.errors import ModelError, UsageError
from engine.wire import KV_BYTES, ModelShape

SHAPE_KEYS = {
    "layers": "num_layers",
    "kv-heads": "num_kv_heads",
    "head-size": "head_size",
    "max-position": "max_position",
}
SHAPE_EXAMPLE = "layers=12,kv-heads=12,head-size=64,max-position=2048"


# Widths that some families have and some have not.
WIDTHS = ("intermediate_size", "ffn_dim", "word_embed_proj_dim")


class ModelFacts(msgspec.Struct, frozen=True):
    """What a configuration says: its shape, and the dtype of its weights (`float32` where it names none).

    `unknown_dtype` is what it calls a dtype that nothing here computes in; `architecture` null where it names none.
    """

    shape: ModelShape
    dtype: str
    unknown_dtype: str | None = None
    architecture: str | None = None
    quantised: bool = False


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file of a model's folder. Raises ModelError that names the file and what is wrong with it."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not JSON", hint="restore the model's folder") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path} is not a JSON object", hint="restore the model's folder")
    return value


def read_facts(folder: Path) -> ModelFacts:
    """Shape and dtype of the model in `folder`. Raises ModelError."""
    config = read_json(folder / "config.json")
    named = str(config.get("dtype") or config.get("torch_dtype") or "float32").removeprefix("torch.")
    known = named in KV_BYTES
    architectures = config.get("architectures")
    return ModelFacts(
        shape=shape_of(config.get, folder.resolve().name),
        dtype=named if known else "float32",
        unknown_dtype=None if known else named,
        architecture=str(architectures[0]) if isinstance(architectures, list) and architectures else None,
        quantised=bool(config.get("quantization_config")),
    )


def shape_of(get: Callable[[str], Any], name: str) -> ModelShape:
    """The shape of the model `name` whose configuration has the value `get(key)` under a key, null where it has none.

    Mirrors vllm/transformers_utils/model_arch_config_convertor.py::ModelArchConfigConvertorBase. Raises ModelError.
    """
    try:
        heads, hidden = _count(get, "num_attention_heads"), _count(get, "hidden_size")
        kv_heads = _count(get, "num_key_value_heads", heads)
        if get("head_dim") is None and hidden % heads:
            raise ValueError(f"num_attention_heads {heads} does not divide hidden_size {hidden}")
        if heads % kv_heads:
            raise ValueError(f"num_key_value_heads {kv_heads} does not divide num_attention_heads {heads}")
        for width in WIDTHS:
            _count(get, width, 1)
        return ModelShape(
            name=name,
            num_layers=_count(get, "num_hidden_layers"),
            num_kv_heads=kv_heads,
            head_size=_count(get, "head_dim", hidden // heads),
            max_position=_max_position(get),
            vocab_size=_count(get, "vocab_size"),
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelError(
            f"the config.json of {name} is not that of a decoder-only model: {error}",
            hint="use a model of a family in engine/models/",
        ) from error


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


def _count(get: Callable[[str], Any], key: str, default: int | None = None) -> int:
    """A whole number of at least 1. Raises ValueError that names the key."""
    value = get(key)
    value = default if value is None else value
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{key} is {value!r}, not a whole number of at least 1")
    return value


def _max_position(get: Callable[[str], Any]) -> int:
    """Tokens of the longest request, the scaling of rope included.

    Mirrors vllm/config/model.py::_get_and_verify_max_len for one kind of rope.
    """
    limit = _count(get, "max_position_embeddings")
    rope = get("rope_parameters") or get("rope_scaling") or {}
    if not isinstance(rope, Mapping):
        raise ValueError(f"the rope parameters are {rope!r}, not an object")
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind in ("default", "llama3", "longrope", "su"):
        return limit
    if kind == "yarn":
        limit = int(rope.get("original_max_position_embeddings") or limit)
    scaled = int(limit * float(rope.get("factor") or 1.0))
    if scaled < 1:
        raise ValueError(f"the rope parameters leave {scaled} positions")
    return scaled

"""A model's configuration and weights, read from a folder with transformers' config classes and safetensors.

Everything that can be known to be wrong is known from `config.json`, before a byte of a weight is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open

from engine.kernels.memory import Arena
from engine.model_folder import ModelError
from engine.wire import ModelShape

DTYPES: Final = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
INDEX: Final = "model.safetensors.index.json"


def read_config(folder: Path) -> Any:
    """The folder's configuration as transformers' own class. Raises ModelError when transformers cannot read it."""
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True)
    except (ValueError, KeyError, TypeError, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(
            f"{folder / 'config.json'} is not a configuration that can be used: {reason}"
        ) from error


def architecture_of(config: Any) -> str:
    """The name of the model's class, by which a family is found. Raises ModelError when there is none."""
    names = getattr(config, "architectures", None)
    if not names:
        raise ModelError(
            "config.json names no architecture: add one, such as LlamaForCausalLM, to `architectures`"
        )
    return str(names[0])


def shape_of(config: Any, name: str) -> ModelShape:
    """What the start-up arithmetic needs; `name` is only for messages.

    Mirrors vllm/transformers_utils/model_arch_config_convertor.py::ModelArchConfigConvertorBase.
    """
    heads = config.num_attention_heads
    return ModelShape(
        name=name,
        num_layers=config.num_hidden_layers,
        num_kv_heads=getattr(config, "num_key_value_heads", None) or heads,
        head_size=getattr(config, "head_dim", None) or config.hidden_size // heads,
        max_position=_max_position(config),
        vocab_size=config.vocab_size,
    )


def _max_position(config: Any) -> int:
    """Tokens of the longest request that the positions allow, rope scaling included.

    Mirrors vllm/config/model.py::_get_and_verify_max_len for a configuration with one kind of rope.
    """
    limit = int(config.max_position_embeddings)
    rope = getattr(config, "rope_parameters", None) or {}
    kind = rope.get("rope_type", "default")
    if kind in ("default", "llama3", "longrope"):
        return limit
    if kind == "yarn":
        limit = int(rope.get("original_max_position_embeddings") or limit)
    return int(limit * float(rope.get("factor") or 1.0))


def dtype_of(config: Any) -> str:
    """The dtype that the weights were saved in, float32 where the configuration does not say."""
    dtype = getattr(config, "dtype", None)
    named = str(dtype).removeprefix("torch.") if dtype is not None else "float32"
    return named if named in DTYPES else "float32"


class Weights:
    """Tensors of a model by name, read one at a time, so that no more than one is held twice.

    `prefix` is what some checkpoints put before every name and others do not; it is taken off.
    """

    def __init__(
        self, folder: Path, dtype: torch.dtype, device: torch.device, prefix: str = "model."
    ) -> None:
        self._folder, self._dtype, self._device, self._prefix = folder, dtype, device, prefix
        self._arena = Arena()
        self._open: dict[Path, Any] = {}
        self._files: dict[str, tuple[Path, str]] = {}
        for path in self._paths():
            for stored in self._reader(path).offset_keys():
                self._files[stored.removeprefix(prefix)] = (path, stored)

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def take(self, name: str, *shape: int) -> torch.Tensor:
        """Tensor `name`, whose shape must be `shape`, in the model's dtype on its device.

        Raises ModelError when it is not there, cannot be read, or has another shape.
        """
        if name not in self._files:
            raise ModelError(
                f"{self._folder} lacks the weight {name}: its safetensors are not this architecture's"
            )
        path, stored = self._files[name]
        try:
            tensor: torch.Tensor = self._open[path].get_tensor(stored)
        except (SafetensorError, OSError) as error:
            raise _unreadable(path, error) from error
        if tuple(tensor.shape) != shape:
            raise ModelError(
                f"{path}: {stored} has shape {list(tensor.shape)}, and config.json asks for {list(shape)}"
            )
        return tensor.to(device=self._device, dtype=self._dtype)

    def keep(self, tensor: torch.Tensor) -> torch.Tensor:
        """What every step reads from end to end, where reading it is fastest: a copy on a CPU, else itself.

        What is to be packed is left alone: it is copied by that.
        """
        if tensor.device.type == "cpu" and tensor.dtype == torch.float32:
            return self._arena.place(tensor)
        return tensor

    def _paths(self) -> list[Path]:
        index = self._folder / INDEX
        if not index.is_file():
            return sorted(self._folder.glob("*.safetensors"))
        try:
            names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise _unreadable(index, error) from error
        missing = [name for name in names if not (self._folder / name).is_file()]
        if missing:
            raise ModelError(f"{self._folder} lacks {missing[0]}, which {INDEX} names: download it again")
        return [self._folder / name for name in names]

    def _reader(self, path: Path) -> Any:
        if path not in self._open:
            opened: Callable[..., Any] = safe_open
            try:
                self._open[path] = opened(path, framework="pt")
            except (SafetensorError, OSError) as error:
                raise _unreadable(path, error) from error
        return self._open[path]


def _unreadable(path: Path, error: Exception) -> ModelError:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return ModelError(f"{path} cannot be read ({reason}): download or make the model again")

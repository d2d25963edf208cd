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

from engine import shape
from engine.errors import ModelError
from engine.kernels.memory import Arena
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
    """The shape by transformers' configuration; `name` is only for messages. See engine/shape.py::shape_of."""
    return shape.shape_of(lambda key: getattr(config, key, None), name)


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

"""A model's configuration and weights, read from a folder with transformers' config classes and safetensors.

Everything that can be known to be wrong is known from `config.json`, before a byte of a weight is read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError

from engine import shape
from engine.errors import ModelError
from engine.kernels.memory import Arena
from engine.weight_files import is_rotary_buffer, open_file, unreadable, weight_files
from engine.wire import ModelShape

DTYPES: Final = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


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
        self._taken: set[str] = set()
        for path in weight_files(folder):
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
        self._taken.add(name)
        path, stored = self._files[name]
        try:
            tensor: torch.Tensor = self._open[path].get_tensor(stored)
        except (SafetensorError, OSError) as error:
            raise unreadable(path, error) from error
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

    def check_spent(self, *, tied: bool) -> None:
        """Raise ModelError for a tensor that no part of the model has taken: the weights are of another model.

        As upstream, a model passes over the buffers of rotary positions, over biases of parts that have none and,
        where `tied`, over a head of its own. Mirrors vllm/model_executor/models/utils.py::AutoWeightsLoader.
        """
        parts = {name[:end] for name in self._taken for end in range(len(name)) if name[end] == "."}
        for name in sorted(self._files.keys() - self._taken):
            passed_over = (
                is_rotary_buffer(name)
                or (tied and name.startswith("lm_head."))
                or (name.endswith(".bias") and name.removesuffix(".bias") in parts)
            )
            if not passed_over:
                raise ModelError(
                    f"{self._folder} has the weight {self._files[name][1]}, which the model of its config.json "
                    "has no place for: restore the model's folder"
                )

    def _reader(self, path: Path) -> Any:
        if path not in self._open:
            self._open[path] = open_file(path, "pt")
        return self._open[path]

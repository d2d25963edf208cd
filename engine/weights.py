"""A model's configuration and weights, read from a folder with transformers' config classes and safetensors.

Everything that can be known to be wrong is known from `config.json`, before a byte of a weight is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError

from engine import shape
from engine.errors import ModelError
from engine.kernels.memory import Arena
from engine.weight_files import is_rotary_buffer, open_file, unreadable, weight_files
from engine.wire import ModelShape

MOST_MAPPED: Final = 64 << 20
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
        self._mapped = 0
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
        mapped = self._read(name, shape)
        own = mapped.to(device=self._device, dtype=self._dtype, copy=True)
        self._let_go(mapped)
        return own

    def stack(self, parts: Sequence[tuple[str, int]], inputs: int) -> torch.Tensor:
        """Tensors (name, outputs) of shape `[outputs, inputs]` under one another, where reading them is fastest.

        They go from the file to their place, so that no copy is left in the heap. Raises ModelError as `take`.
        """
        rows = sum(outputs for _, outputs in parts)
        if self._device.type == "cpu" and self._dtype == torch.float32:
            stacked = self._arena.empty(rows, inputs, dtype=self._dtype)
        else:
            stacked = torch.empty(rows, inputs, dtype=self._dtype, device=self._device)
        begin = 0
        for name, outputs in parts:
            mapped = self._read(name, (outputs, inputs))
            stacked[begin : begin + outputs].copy_(mapped)
            self._let_go(mapped)
            begin += outputs
        return stacked

    def _read(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """The tensor as it lies in the file."""
        if name not in self._files:
            raise ModelError(
                f"{self._folder} lacks the weight {name}: its safetensors are not this architecture's"
            )
        self._taken.add(name)
        path, stored = self._files[name]
        try:
            tensor: torch.Tensor = self._reader(path).get_tensor(stored)
        except (SafetensorError, OSError) as error:
            raise unreadable(path, error) from error
        if tuple(tensor.shape) != shape:
            raise ModelError(
                f"{path}: {stored} has shape {list(tensor.shape)}, and config.json asks for {list(shape)}"
            )
        return tensor

    def _let_go(self, mapped: torch.Tensor) -> None:
        """Unmap the files once MOST_MAPPED bytes were read: their pages are counted as the process's own."""
        self._mapped += mapped.numel() * mapped.itemsize
        if self._mapped > MOST_MAPPED:
            self._open.clear()
            self._mapped = 0

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

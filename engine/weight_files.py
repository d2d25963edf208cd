"""A model's safetensors as far as their headers tell: which files, which tensors, which layers. Needs no torch.

So that a folder whose weights are cut, or are not those of its config.json, is refused before anything is loaded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from engine.errors import ModelError

INDEX: Final = "model.safetensors.index.json"

# Buffers that old checkpoints hold and every model makes itself.
# Mirrors vllm/model_executor/models/utils.py::AutoWeightsLoader.ROTARY_EMBEDS_UNUSED_WEIGHTS.
ROTARY_BUFFERS: Final = (
    "rotary_pos_emb.inv_freq",
    "rotary_emb.inv_freq",
    "rotary_emb.cos_cached",
    "rotary_emb.sin_cached",
)
_LAYER = re.compile(r"(?:^|\.)layers\.([0-9]{1,9})\.")


def weight_files(folder: Path) -> list[Path]:
    """The files that the index names, or all there are without one. Raises ModelError for one that is missing."""
    index = folder / INDEX
    if not index.is_file():
        return sorted(folder.glob("*.safetensors"))
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        missing = [name for name in names if not (folder / name).is_file()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise unreadable(index, error) from error
    if missing:
        raise ModelError(f"{folder} lacks {missing[0]}, which {INDEX} names: download it again")
    return [folder / name for name in names]


def open_file(path: Path, framework: str) -> Any:
    """The reader of a file whose header is whole and agrees with its size. Raises ModelError."""
    from safetensors import SafetensorError, safe_open

    opened: Callable[..., Any] = safe_open
    try:
        with path.open("rb"):  # it knows why a file cannot be opened, and the reader does not
            pass
        return opened(path, framework=framework)
    except (SafetensorError, OSError) as error:
        raise unreadable(path, error) from error


def check_layers(folder: Path, num_layers: int) -> None:
    """Raise ModelError unless the weights have the layers 0 to `num_layers` - 1 that config.json asks for, and no more.

    Upstream refuses both as well: what it computed with fewer layers would look like text.
    """
    names: list[str] = []
    for path in weight_files(folder):
        names += open_file(path, "np").offset_keys()
    found = layers_of(names)
    if found and max(found) + 1 != num_layers:
        raise ModelError(
            f"config.json of {folder.name} says num_hidden_layers {num_layers}, and its weights have "
            f"{max(found) + 1} layers: restore the model's folder"
        )


def layers_of(names: Iterable[str]) -> set[int]:
    """The layers that tensors of `names` belong to."""
    own = (name for name in names if not is_rotary_buffer(name))
    return {int(found.group(1)) for name in own if (found := _LAYER.search(name))}


def is_rotary_buffer(name: str) -> bool:
    return any(part in name for part in ROTARY_BUFFERS)


def unreadable(path: Path, error: Exception) -> ModelError:
    """What to tell of a file that cannot be read."""
    reason = getattr(error, "strerror", None) or (str(error).splitlines() or [type(error).__name__])[0]
    hint = "give yourself the right to read it" if isinstance(error, PermissionError) else ""
    return ModelError(f"{path} cannot be read ({reason}): {hint or 'download or make the model again'}")

"""From what a user calls a model to a folder on disk, decided before anything heavy is imported.

A folder of weights is `config.json`, `*.safetensors` and, for text, a tokenizer. A hub name is looked up where
transformers keeps its downloads, and downloaded where a hub is reachable.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from engine.errors import ModelError
from engine.shape import read_json

TOKENIZER_FILES = (
    "tokenizer.json",
    "*.model",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tekken.json",
    "*.tiktoken",
)
LONGEST_SHOWN = 300  # characters of a name
MADE_HERE = ("smollm2-135m-instruct", "tiny-opt")


def is_hub_name(name: str) -> bool:
    """Whether `name` reads as `owner/model`, and not as a path."""
    parts = name.split("/")
    return len(parts) == 2 and all(parts) and not name.startswith((".", "~", "/"))


def resolve_folder(name: str) -> Path:
    """The folder that holds the model `name`, a path or a hub name; downloads from a hub if it must.

    Raises ModelError, in one line, for a path that is no model's and for a hub that cannot be reached.
    """
    folder, kind = folder_named(name)
    if kind == "folder":
        return _checked(folder)
    if kind == "file":
        raise ModelError(f"{name} is a file: name the folder that holds config.json and *.safetensors")
    if kind == "impossible" or not is_hub_name(name) or folder.parent.is_dir():
        raise ModelError(
            f"no model folder {shown(name)}: give a folder with config.json, or run `make model`{_made(folder)}"
        )
    return _checked(_from_hub(name))


def folder_named(name: str) -> tuple[Path, Literal["folder", "file", "nothing", "impossible"]]:
    """The path that `name` means and what is there: `impossible` for what no path on this machine can be.

    Raises ModelError for an empty name, which would be the working directory, and for a path that may not be looked at.
    """
    if not name.strip():
        raise ModelError("MODEL is empty: give a folder with config.json, or a hub name")
    folder = Path(name)
    try:
        folder = folder.expanduser()
        if folder.is_dir():
            return folder, "folder"
        return folder, "file" if folder.exists() else "nothing"
    except PermissionError as error:
        raise ModelError(f"{name} cannot be read ({error.strerror})") from error
    except (OSError, RuntimeError, ValueError):  # too long, a user who is not there, a NUL
        return folder, "impossible"


def shown(name: str) -> str:
    """A name as a message shows it: a line, and not pages."""
    return name if len(name) <= LONGEST_SHOWN else f"{name[:LONGEST_SHOWN]}… ({len(name)} characters)"


def check_tokenizer(folder: Path) -> None:
    """Raise ModelError for a folder without a tokenizer: transformers would make one that knows no word."""
    if not any(any(folder.glob(pattern)) for pattern in TOKENIZER_FILES):
        raise ModelError(
            f"{folder} has no tokenizer: add tokenizer.json and tokenizer_config.json of the model"
        )


def _made(folder: Path) -> str:
    """What `make model` would make, where the name is one of its own."""
    return f", which makes {folder.name}" if folder.name in MADE_HERE else " for one to start with"


def _checked(folder: Path) -> Path:
    """`folder`, if it holds a readable config.json and safetensors."""
    path = folder / "config.json"
    if not path.exists():
        raise ModelError(f"{folder} has no config.json: it is not a model's folder")
    read_json(path)
    if not any(folder.glob("*.safetensors")):
        raise ModelError(
            f"{folder} has no *.safetensors: convert its weights (save_pretrained of transformers writes them)"
        )
    return folder


def _from_hub(name: str) -> Path:
    """The snapshot of a hub's model, from the cache or downloaded."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError, RepositoryNotFoundError

    wanted = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]
    offline = os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0")
    try:
        return Path(snapshot_download(name, allow_patterns=wanted, local_files_only=offline))
    except (RepositoryNotFoundError, HFValidationError):
        raise ModelError(f"the hub has no model {name}: check the name, or give a folder") from None
    except (LocalEntryNotFoundError, OSError):
        raise ModelError(
            f"{name} is neither a folder nor downloaded, and no hub is reachable: download it where one is and "
            "give its folder, or run `make model` and use .models/smollm2-135m-instruct"
        ) from None

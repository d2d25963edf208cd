"""What a user calls a model: a folder, or a hub's name where a hub or its cache can be reached."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import ModelError
from engine.model_folder import is_hub_name, resolve_folder


def refusal(name: str) -> str:
    with pytest.raises(ModelError) as raised:
        resolve_folder(name)
    message = str(raised.value)
    assert "\n" not in message
    return message


def a_model(folder: Path, config: str = "{}") -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(config)
    (folder / "model.safetensors").touch()
    return folder


def test_a_folder_with_a_configuration_and_weights(tmp_path: Path) -> None:
    folder = a_model(tmp_path / "model")

    assert resolve_folder(str(folder)) == folder


@pytest.mark.parametrize(
    ("name", "is_name"),
    [
        ("facebook/opt-125m", True),
        ("./facebook/opt-125m", False),
        ("models/a/b", False),
        ("opt-125m", False),
        ("/opt", False),
        ("~/opt", False),
        ("../opt", False),
    ],
)
def test_which_names_are_a_hub_s(name: str, is_name: bool) -> None:
    assert is_hub_name(name) is is_name


def test_a_path_that_is_not_there_says_what_makes_one(tmp_path: Path) -> None:
    assert "run `make model`, which makes tiny-opt" in refusal(str(tmp_path / "tiny-opt"))
    assert "run `make model` for one to start with" in refusal(str(tmp_path / "other"))


def test_a_relative_path_below_a_folder_that_is_there_is_no_hub_s_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()

    assert "no model folder models/opt" in refusal("models/opt")


def test_folders_and_files_that_hold_no_model(tmp_path: Path) -> None:
    folder = a_model(tmp_path / "model")

    assert "is a file" in refusal(str(folder / "config.json"))
    (folder / "model.safetensors").unlink()
    assert "no *.safetensors" in refusal(str(folder))
    (folder / "config.json").write_text("{")
    assert "config.json is not JSON" in refusal(str(folder))
    (folder / "config.json").write_text("[]")
    assert "not a JSON object" in refusal(str(folder))
    (folder / "config.json").unlink()
    assert "has no config.json" in refusal(str(folder))


def test_a_wrong_path_is_known_without_torch(tmp_path: Path) -> None:
    script = (
        "import sys\nfor name in ('torch', 'transformers', 'huggingface_hub'): sys.modules[name] = None\n"
        "from engine.errors import ModelError\nfrom engine.model_folder import resolve_folder\n"
        f"try: resolve_folder({str(tmp_path / 'none')!r})\nexcept ModelError as error: print(error)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "no model folder" in done.stdout

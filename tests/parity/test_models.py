"""The tables of models, and the tables of defaults that docs/config.md shows."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from parity.defaults import (
    ConfigForm,
    ServerConfigForm,
    build_config,
    build_server_config,
    config_defaults,
)
from parity.document import Fault
from parity.errors import ScenarioError
from parity.models import model, models, read_models
from parity.scenario import Config, Model, ServerConfig
from parity.serve.models import served_model, served_models


def test_the_shapes_that_reports_speak_of_are_in_the_table() -> None:
    assert model("opt-125m") == Model("opt-125m", 12, 12, 64, 2048, 50272)
    assert model("smollm2-135m") == Model("smollm2-135m", 30, 3, 64, 8192, 49152)
    assert model("qwen3-0.6b") == Model("qwen3-0.6b", 28, 8, 128, 40960, 151936)
    assert model("tiny-opt") == Model("tiny-opt", 2, 2, 32, 2048, 50272)


def test_every_vocabulary_has_room_for_generated_ids() -> None:
    assert all(shape.vocab_size >= 2000 for shape in models().values())


def test_an_unknown_model_names_the_nearest() -> None:
    with pytest.raises(Fault, match="no model 'opt-125' ") as caught:
        model("opt-125")

    assert caught.value.hint == "did you mean 'opt-125m'?"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: {num_layers: 1}", r"m.yaml:1: key 'num_kv_heads' is missing"),
        (
            "a: {num_layers: 0, num_kv_heads: 1, head_size: 1, max_position: 1, vocab_size: 2000}",
            r"m.yaml:1: expected a whole number of at least 1",
        ),
        (
            "\na: {num_layers: 1, num_kv_heads: 1, head_size: 1, max_position: 1, vocab_size: 1999}",
            r"m.yaml:2: expected a whole number of at least 2000",
        ),
        ("- a", r"m.yaml:1: a file holds one map"),
    ],
)
def test_a_bad_table_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        read_models(text.encode(), "m.yaml")


@pytest.mark.parametrize(("place", "form"), [(0, ConfigForm), (1, ServerConfigForm)])
def test_the_table_for_people_has_the_defaults_of_the_machine(
    root: Path, place: int, form: type[ConfigForm | ServerConfigForm]
) -> None:
    text = (root / "docs/config.md").read_text(encoding="utf-8").split("## Level `serve`")[place]
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", text, flags=re.MULTILINE)
    shown = {key: value.split(" (")[0].strip().strip("`") for key, value in rows}
    required = [field.name for field in msgspec.structs.fields(form) if field.required]

    assert [shown.pop(key) for key in required] == ["required"] * len(required)
    assert list(shown) == list(config_defaults(form))
    assert shown == {
        key: "null" if value is None else str(value).lower() for key, value in config_defaults(form).items()
    }


def test_the_form_has_the_keys_of_the_wire_and_builds_it() -> None:
    wire = [field.name for field in msgspec.structs.fields(Config)]

    assert [field.name for field in msgspec.structs.fields(ConfigForm)] == wire
    config = build_config(ConfigForm(model="tiny-opt", num_blocks=5), model("tiny-opt"))
    assert (config.model, config.num_blocks, config.block_size) == (model("tiny-opt"), 5, 16)


def test_the_form_of_a_server_builds_its_configuration_and_has_its_keys() -> None:
    wire = {field.name for field in msgspec.structs.fields(ServerConfig)}

    assert {field.name for field in msgspec.structs.fields(ServerConfigForm)} == wire
    config = build_server_config(ServerConfigForm(model="tiny-opt", num_blocks=5))
    assert (config.model, config.num_blocks, config.block_size) == ("tiny-opt", 5, 16)


def test_every_model_that_is_served_is_in_a_table_and_another_is_not() -> None:
    assert served_models().keys() == {"tiny-opt", "smollm2-135m-instruct"}
    with pytest.raises(Fault, match=r"no model 'smollm2' in parity/serve/models.yaml"):
        served_model("smollm2")

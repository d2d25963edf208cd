"""Models and values that cannot work are one line and an exit code, before a weight is read and before the log.

Upstream (0.27.1, measured) refuses surplus and missing layers and head counts that do not divide as well; a folder
without a tokenizer, a broken template and an impossible generation config it serves, and refuses every request.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.cli.main import main
from engine.options import EngineOptions
from engine.startup import load_llm

Change = Callable[[Path], object]


def config(**values: Any) -> Change:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return change


def tensors(**values: torch.Tensor) -> Change:
    def change(folder: Path) -> None:
        path = folder / "model.safetensors"
        named = {name.replace("__", "."): value for name, value in values.items()}
        save_file(load_file(path) | named, path)

    return change


def generation(**values: Any) -> Change:
    return lambda folder: (folder / "generation_config.json").write_text(json.dumps(values))


def no_tokenizer(folder: Path) -> None:
    for path in folder.glob("tokenizer*"):
        path.unlink()


def cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


REFUSED: dict[str, tuple[Change, str]] = {
    "surplus layers": (config(num_hidden_layers=1), "num_hidden_layers 1, and its weights have 2"),
    "missing layers": (config(num_hidden_layers=3), "num_hidden_layers 3, and its weights have 2"),
    "heads": (config(num_attention_heads=3), "num_attention_heads 3 does not divide hidden_size 128"),
    "kv heads": (config(num_key_value_heads=3), "num_key_value_heads 3 does not divide"),
    "no heads": (config(num_attention_heads=0), "num_attention_heads is 0"),
    "negative width": (config(ffn_dim=-1), "ffn_dim is -1"),
    "broken width": (config(ffn_dim=25.5), "ffn_dim is 25.5"),
    "no tokenizer": (no_tokenizer, "has no tokenizer"),
    "eos": (generation(eos_token_id=["x"]), "eos_token_id must be a token id or a list of them, got ['x']"),
    "temperature": (generation(temperature=-1), "temperature must be in [0, 2], got -1"),
    "top_k": (generation(top_k=0.5), "top_k must be a whole number, got 0.5"),
    "architecture": (config(architectures=["GPT2LMHeadModel"]), "no family computes GPT2LMHeadModel"),
    "no architecture": (config(architectures=None), "names no architecture"),
    "quantised": (config(quantization_config={"quant_method": "awq"}), "quantised weights"),
    "cut weights": (cut, "model.safetensors cannot be read"),
    "activation": (config(activation_function="what"), "what"),
}


@pytest.mark.usefixtures("nothing_loads")
@pytest.mark.parametrize("name", REFUSED)
def test_a_model_that_cannot_work_is_one_line(
    name: str, tiny_opt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, says = REFUSED[name]
    folder = shutil.copytree(tiny_opt, tmp_path / "odd")
    change(folder)

    assert main(["generate", str(folder), "Hello"]) == 64

    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert says in shown.err


@pytest.mark.parametrize("name", ["architecture", "quantised"])
def test_a_plan_says_what_would_not_be_served(
    name: str, tiny_opt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, says = REFUSED[name]
    folder = shutil.copytree(tiny_opt, tmp_path / "odd")
    change(folder)

    assert main(["plan", str(folder)]) == 0

    shown = capsys.readouterr().err
    assert "serve and generate refuse this model" in shown
    assert says in shown


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (tensors(model__decoder__foo__weight=torch.zeros(2)), "model.decoder.foo.weight"),
        (tensors(foo__weight=torch.zeros(2)), "foo.weight"),
        (tensors(model__decoder__layers__0__foo__bias=torch.zeros(2)), "layers.0.foo.bias"),
        (tensors(model__decoder__layers__0__fc1__qbias=torch.zeros(2)), "layers.0.fc1.qbias"),
    ],
)
def test_weights_of_another_model_are_refused(
    change: Change, says: str, tiny_opt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(tiny_opt, tmp_path / "odd")
    change(folder)

    assert main(["generate", str(folder), "Hello", "--num-gpu-blocks-override", "8"]) == 1
    assert says in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("change", "warning"),
    [
        (tensors(lm_head__weight=torch.zeros(512, 128)), None),
        (tensors(model__decoder__layers__0__self_attn__rotary_emb__inv_freq=torch.zeros(2)), None),
        (tensors(model__decoder__layers__7__self_attn__rotary_emb__inv_freq=torch.zeros(2)), None),
        (tensors(model__decoder__layers__0__bias=torch.zeros(2)), None),
        (config(dtype="int4"), "names the dtype int4"),
        (lambda folder: (folder / "chat_template.jinja").write_text("{% for x in %}"), "template is broken"),
    ],
)
def test_what_upstream_passes_over_changes_no_word(
    change: Change,
    warning: str | None,
    tiny_opt: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["Hello", "--num-gpu-blocks-override", "8", "--max-model-len", "64"]
    assert main(["generate", str(tiny_opt), *words]) == 0
    plain = capsys.readouterr()
    folder = shutil.copytree(tiny_opt, tmp_path / "odd")
    change(folder)

    assert main(["generate", str(folder), *words]) == 0

    shown = capsys.readouterr()
    assert shown.out == plain.out
    assert shown.err.count("\n") == plain.err.count("\n") + (warning is not None)
    assert (warning or "") in shown.err


def test_a_replaced_value_of_the_generation_config_is_not_looked_at(tiny_opt: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_opt, tmp_path / "odd")
    generation(temperature=-1, eos_token_id=7)(folder)
    override = {"temperature": 0.5}

    served = load_llm(
        EngineOptions(str(folder), num_gpu_blocks_override=8, override_generation_config=override),
        lambda _line: None,
    )
    served.stop()

    assert (served.defaults, served.more_eos_token_ids) == ({"temperature": 0.5}, (7,))


@pytest.mark.usefixtures("nothing_loads")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["Hello", "--temperature", "-1"], "--temperature must be in [0, 2]"),
        (["Hello", "--temperature", "nan"], "--temperature must be in [0, 2]"),
        (["Hello", "--temperature", "1e308"], "--temperature must be in [0, 2]"),
        (["Hello", "--max-tokens", "1000000"], "--max-tokens=1000000 cannot be more than"),
        (["Hello " * 3000], "maximum context length is 2048 tokens"),
        (["\udcff"], "not valid UTF-8"),
        (["Hello", "--seed", "9223372036854775808"], "at most 9223372036854775807"),
        (["Hello", "--seed", "-9223372036854775809"], "at least -9223372036854775808"),
        (["Hello", "--seed", "1" * 5000], "whole number"),
        (["Hello", "--block-size", "99999999999999999999"], "at most 9223372036854775807"),
    ],
)
def test_impossible_values_are_one_line_before_the_weights(
    words: list[str], says: str, tiny_opt: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["generate", str(tiny_opt), *words])
    except SystemExit as stop:
        code = int(stop.code or 0)

    shown = capsys.readouterr()
    assert (code, shown.out, shown.err.count("\n")) == (64, "", 1)
    assert says in shown.err


@pytest.mark.parametrize("seed", ["-9223372036854775808", "9223372036854775807"])
def test_the_ends_of_a_requests_seeds_are_taken(
    seed: str, tiny_opt: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["Hello", "--num-gpu-blocks-override", "8", "--temperature", "1", "--seed", seed]

    assert main(["generate", str(tiny_opt), *words]) == 0
    assert capsys.readouterr().out.strip()


@pytest.mark.usefixtures("nothing_loads")
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_no_cuda_is_one_line(tiny_opt: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(tiny_opt), "Hello", "--device", "cuda"]) == 1
    assert capsys.readouterr().err == "nullblock: no CUDA device is there — choose --device cpu\n"


def test_a_pool_without_a_usable_block_is_warned_of(
    tiny_opt: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Upstream starts with one block as well, and its first request waits for ever."""
    monkeypatch.setattr("engine.cli.generate.STALL_SECONDS", 0.1)

    assert main(["generate", str(tiny_opt), "a", "--num-gpu-blocks-override", "1", "--max-tokens", "1"]) == 1
    assert "no block but the null block" in capsys.readouterr().err

"""Starting: what is said, what is refused before a weight is read, and `nullblock generate` from end to end."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from engine import startup
from engine.capacity import PlanOk, PlanRefused, plan
from engine.cli.main import main
from engine.errors import ModelError, StartupError, UsageError
from engine.options import EngineOptions
from engine.policies import Policies
from engine.startup import load_llm
from tests.engine.core.fakes import settings


def config(**changes: Any) -> Any:
    return settings(**changes)


def test_the_log_says_what_upstreams_says() -> None:
    asked = config(num_blocks=4)
    found = plan(asked, Policies())
    assert isinstance(found, PlanOk)

    lines = startup.start_up_log(found, asked)

    assert lines[0].startswith("Auto-fit max_model_len: reduced from 2048 to 64")
    assert lines[1:] == [
        "KV cache size: 64 tokens",
        "Maximum concurrency for 64 tokens per request: 1.00x",
    ]


def test_a_length_that_was_asked_for_is_not_called_fitted() -> None:
    asked = config(num_blocks=10, max_model_len=100)
    found = plan(asked, Policies())
    assert isinstance(found, PlanOk)

    assert startup.start_up_log(found, asked) == [
        "KV cache size: 142 tokens",
        "Maximum concurrency for 100 tokens per request: 1.43x",
    ]


def test_every_refusal_of_the_arithmetic_has_a_sentence() -> None:
    kinds = {
        "max-model-len-above-model": config(max_model_len=4000),
        "batched-tokens-below-max-model-len": config(
            enable_chunked_prefill=False, max_num_batched_tokens=100
        ),
        "batched-tokens-below-max-num-seqs": config(max_num_batched_tokens=8),
        "long-prefill-threshold-above-max-model-len": config(long_prefill_token_threshold=2049),
        "no-kv-cache-memory": config(num_blocks=None, kv_cache_memory_bytes=0, max_model_len=64),
        "kv-cache-too-small": config(num_blocks=4, max_model_len=65),
        "cannot-auto-fit": config(num_blocks=None, kv_cache_memory_bytes=1),
    }
    for kind, asked in kinds.items():
        refused = plan(asked, Policies())
        assert isinstance(refused, PlanRefused)
        assert refused.kind == kind
        message, hint = startup.explain(refused, asked)
        assert kind not in message
        assert hint


@pytest.mark.usefixtures("nothing_loads")
def test_what_does_not_fit_into_memory_is_refused_before_weights_are_read(tiny_opt: Path) -> None:
    options = EngineOptions(model=str(tiny_opt), num_gpu_blocks_override=10**9)

    with pytest.raises(StartupError, match="GiB of KV cache"):
        load_llm(options, lambda _line: None)


@pytest.mark.usefixtures("nothing_loads")
def test_an_impossible_length_is_refused_before_weights_are_read(tiny_opt: Path) -> None:
    with pytest.raises(UsageError, match="own limit of 2048"):
        load_llm(EngineOptions(model=str(tiny_opt), max_model_len=4000), lambda _line: None)


@pytest.mark.usefixtures("nothing_loads")
def test_broken_weights_are_one_line(tiny_opt: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_opt, tmp_path / "broken")
    (folder / "model.safetensors").write_bytes(b"nothing of the kind")

    with pytest.raises(ModelError, match=r"model\.safetensors cannot be read") as refusal:
        load_llm(EngineOptions(model=str(folder), num_gpu_blocks_override=8), lambda _line: None)

    assert "\n" not in str(refusal.value)


def test_the_generation_config_gives_defaults_and_the_operator_overrides(
    tiny_opt: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(tiny_opt, tmp_path / "tuned")
    values = {
        "temperature": 0.6,
        "top_k": 20,
        "max_new_tokens": 50,
        "eos_token_id": [2, 7, 9],
        "do_sample": True,
    }
    (folder / "generation_config.json").write_text(json.dumps(values))
    override = {"temperature": 0.1, "max_new_tokens": 30}

    served = load_llm(
        EngineOptions(model=str(folder), num_gpu_blocks_override=8, override_generation_config=override),
        lambda _line: None,
    )
    served.stop()

    assert served.defaults == {"temperature": 0.1, "top_k": 20, "max_tokens": 30}
    assert (served.ceiling, served.more_eos_token_ids) == (30, (2, 7, 9))


def test_generate_prints_the_text_and_tells_the_rest_on_stderr(
    tiny_opt: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "generate",
        str(tiny_opt),
        "Hello",
        "--num-gpu-blocks-override",
        "8",
        "--ignore-eos",
        "--max-tokens",
        "6",
    ]

    assert main([*words, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert main(words) == 0
    shown = capsys.readouterr()

    assert shown.out == value["text"] + "\n"
    assert value["usage"] == {"prompt_tokens": len(_ids(tiny_opt, "Hello")), "completion_tokens": 6}
    assert (len(value["token_ids"]), value["finish_reason"]) == (6, "length")
    assert "Auto-fit max_model_len: reduced from 2048 to 128" in shown.err
    assert "records/auto-fit/null-block-counted.md" in shown.err
    assert "6 tokens in" in shown.err


def test_generate_says_when_a_request_can_never_end(
    tiny_opt: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.cli.generate.STALL_SECONDS", 0.1)

    code = main(
        [
            "generate",
            str(tiny_opt),
            "Hello",
            "--num-gpu-blocks-override",
            "4",
            "--ignore-eos",
            "--max-tokens",
            "60",
        ]
    )

    assert code == 1
    assert "waits for ever" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "code"),
    [(["--max-tokens", "9999"], 64), (["--temperature", "3"], 64), (["--temperature", "warm"], 64)],
)
def test_generate_refuses_what_a_server_would(
    tiny_opt: Path, words: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        found = main(["generate", str(tiny_opt), "Hello", "--num-gpu-blocks-override", "8", *words])
    except SystemExit as stop:
        found = int(stop.code or 0)

    assert found == code
    assert capsys.readouterr().out == ""


def _ids(folder: Path, text: str) -> list[int]:
    from engine.tokenizer import Tokenizer

    return Tokenizer.load(folder).encode(text)

"""`nullblock` as such, and `nullblock plan`: the case's arithmetic in words, without torch, and its exit codes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine.cli import main as command
from engine.cli.plan import RECORD

ROOT = Path(__file__).resolve().parents[2]
OPT = "layers=12,kv-heads=12,head-size=64,max-position=2048"
HEAVY = ("torch", "transformers", "fastapi", "uvicorn")


def run(*words: str) -> int:
    try:
        return command.main(words)
    except SystemExit as stop:
        return int(stop.code or 0)


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom engine.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    *shown, heavy = done.stdout.splitlines()
    assert heavy == "[]"
    assert [line.split()[0] for line in shown if re.match("    [a-z]", line)] == ["generate", "serve", "plan"]


def test_plan_needs_no_torch() -> None:
    code = (
        "import sys\nsys.modules['torch'] = sys.modules['transformers'] = None\n"
        f"from engine.cli.main import main\nraise SystemExit(main(['plan', '--shape', {OPT!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_the_case_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """2 x 12 layers x 12 heads x 64 x 4 bytes = 73728 a token; 4 blocks of 16 say 64 and hold 48."""
    assert run("plan", "--shape", OPT, "--num-gpu-blocks-override", "4") == 0

    text = capsys.readouterr().out
    for part in (
        "2 (K and V) x 12 layers x 12 KV heads x 64 x 4 (float32) = 73728",
        "73728 x 16 tokens = 1179648",
        "4, asked for (4718592 bytes)   --num-gpu-blocks-override",
        "min(4 blocks x 16 tokens, the model's 2048) = 64",
        "4 / 4 blocks = 1.00x",
        "3 x 16 = 48 slots",
        "a request of 64 tokens needs 63 slots",
        RECORD,
    ):
        assert part in text
    assert (ROOT / RECORD).is_file()


def test_the_policy_plans_without_the_null_block(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(
            "plan",
            "--shape",
            OPT,
            "--num-gpu-blocks-override",
            "4",
            "--policy",
            "null-block-capacity=reserve",
        )
        == 0
    )

    text = capsys.readouterr().out
    assert "min((4 - 1) blocks x 16 tokens, the model's 2048) = 48" in text
    assert RECORD not in text


def test_bytes_make_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    """One byte less than four blocks makes three."""
    assert run("plan", "--shape", OPT, "--kv-cache-memory-bytes", str(4 * 1179648 - 1), "--json") == 0

    plan = json.loads(capsys.readouterr().out)
    assert (plan["status"], plan["num_blocks"], plan["max_model_len"]) == ("ok", 3, 48)


def test_a_model_folder_gives_its_shape(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {
        "hidden_size": 64,
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
        "max_position_embeddings": 2048,
        "vocab_size": 9,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))

    assert run("plan", str(tmp_path), "--dtype", "bfloat16") == 0
    assert "2 layers x 2 KV heads x 32 x 2 (bfloat16) = 512" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--max-model-len", "65"], "--max-model-len 64 fits"),
        (["--max-model-len", "4000"], "the model's own limit of 2048"),
        (["--max-num-batched-tokens", "8"], "--max-num-batched-tokens 8 is below --max-num-seqs 128"),
        (["--long-prefill-token-threshold", "2049"], "lower it"),
        (["--policy", "null-block-capacity=maybe"], "did you mean"),
        (["--policy", "nonsense"], "NAME=VALUE"),
        (["--block-size", "0"], "at least 1"),
        (["--max-model-len", "long"], "at least 1"),
        (["--dtype", "int4"], "invalid choice"),
        (["and-a-model"], "one of the two"),
        (["--num-gpu-blocks-override", "1000000000"], "1000000000 blocks are more than"),
        (["--num-gpu-blocks-override", "9" * 5000], "whole number"),
    ],
)
def test_what_cannot_be_is_one_line_and_64(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("plan", "--shape", OPT, "--num-gpu-blocks-override", "4", *words) == 64

    shown = capsys.readouterr().err
    assert says in shown
    assert len(shown.splitlines()) == 1


def test_a_refused_plan_is_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run("plan", "--shape", OPT, "--num-gpu-blocks-override", "4", "--max-model-len", "65", "--json") == 64
    )

    plan = json.loads(capsys.readouterr().out)
    assert (plan["kind"], plan["estimated_max_model_len"]) == ("kv-cache-too-small", 64)


@pytest.mark.parametrize("verb", ["generate", "plan"])
def test_every_verb_has_help_with_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(verb, "--help") == 0
    assert f"nullblock {verb}" in capsys.readouterr().out.split("example:")[1]


@pytest.mark.parametrize(
    "words",
    [
        ["generate", "no/such/place", "Hi"],
        ["generate", "./nowhere", "Hi"],
        ["plan", "./nowhere"],
        ["plan"],
        ["nonsense"],
        [],
    ],
)
def test_usage_is_64(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == 64
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_fault_of_our_own_is_70(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("planted")

    monkeypatch.setattr("engine.capacity.plan", broken)

    assert run("plan", "--shape", OPT) == 70
    assert "a fault of our own" in capsys.readouterr().err.splitlines()[-1]

"""What a user's shell may do to a command: full disks, closed streams, an encoding without letters, odd names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHAPE = "--shape layers=12,kv-heads=12,head-size=64,max-position=2048"


def shell(words: str, redirected: str = "", **environment: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `nullblock` run by a shell."""
    settings = " ".join(f"{name}={value}" for name, value in environment.items())
    line = f"{settings} {sys.executable} -m engine.cli.main {words} {redirected}"
    done = subprocess.run(
        ["sh", "-c", line], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("words", "redirected", "code", "says"),
    [
        (f"plan {SHAPE}", ">/dev/full", 1, "cannot be written to stdout (No space left on device)"),
        (f"plan {SHAPE} --json", ">/dev/full", 1, "cannot be written to stdout (No space left on device)"),
        (f"plan {SHAPE}", ">&-", 1, "there is no stdout"),
        ("generate model -", "<&-", 64, "there is no stdin"),
        ("generate model -", "</dev/null", 64, "no model folder model"),
        ("generate '' hi", "", 64, "MODEL is empty"),
        ("plan ''", "", 64, "MODEL is empty"),
        ("plan '~no-such-user-here/x'", "", 64, "no model folder"),
        (f"generate {'x' * 5000} hi", "", 64, "(5000 characters)"),
        (f"plan {'x' * 5000}", "", 64, "(5000 characters)"),
        (f"generate {'x/' * 2500} hi", "", 64, "(5000 characters)"),
    ],
)
def test_it_is_one_line_and_no_fault_of_ours(words: str, redirected: str, code: int, says: str) -> None:
    found, out, err = shell(words, redirected)

    assert (found, out, err.count("\n")) == (code, "", 1), err
    assert says in err


def test_a_prompt_that_is_no_text() -> None:
    line = f"printf '\\377' | {sys.executable} -m engine.cli.main generate model -"
    done = subprocess.run(
        ["sh", "-c", line], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stderr.count("\n")) == (64, 1)
    assert "not valid UTF-8" in done.stderr


def test_an_encoding_without_letters_gets_escapes() -> None:
    """The help of --shape has an ellipsis, which ASCII has not."""
    code, out, err = shell("plan --help", PYTHONIOENCODING="ascii")

    assert (code, err) == (0, "")
    assert "K=V,\\u2026" in out


def test_a_closed_stderr_does_not_put_errors_into_the_result() -> None:
    assert shell("plan", "2>&-") == (64, "", "")


def test_a_reader_that_has_gone_is_no_error() -> None:
    line = f"({sys.executable} -m engine.cli.main plan {SHAPE}; echo $? >&2) | true"
    done = subprocess.run(["sh", "-c", line], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.stderr == "0\n"


def test_a_refused_plan_prints_no_half() -> None:
    code, out, err = shell(f"plan {SHAPE} --num-gpu-blocks-override 4 --max-model-len 65")

    assert (code, out, err.count("\n")) == (64, "", 1)


def test_every_warning_of_a_plan_is_a_sentence() -> None:
    code, out, _ = shell(f"plan {SHAPE} --max-num-seqs 1 --max-model-len 100")

    assert code == 0
    # 1 request of 100 tokens
    assert "--max-num-batched-tokens 2048 is more than the 100 tokens that --max-num-seqs 1" in out
    assert "batched-tokens-exceed" not in out

"""Ctrl-C and SIGTERM at any moment of `nullblock generate`: what was made, a line, and no traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
STUCK = ["--num-gpu-blocks-override", "4"]  # 64 tokens are said to fit, and the 49th waits for ever
WORDS = ["Hello", "--max-tokens", "60", "--ignore-eos", *STUCK]


class Generating:
    """A `nullblock generate` that is under way."""

    def __init__(self, model: Path, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "engine.cli.main", "generate", str(model), *WORDS, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def wait_ready(self) -> None:
        assert self.process.stderr is not None
        while "ready" not in (line := self.process.stderr.readline()):
            assert line, "it ended before it was ready"
        time.sleep(0.5)

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=30)
        assert "Traceback" not in err
        return self.process.returncode, out, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_leaves_what_was_made(tiny_opt: Path, number: signal.Signals) -> None:
    running = Generating(tiny_opt)
    running.wait_ready()
    running.process.send_signal(number)

    code, out, err = running.end()

    assert code == 128 + number
    assert out.endswith("\n")
    assert len(out) > 10
    assert err.startswith(f"nullblock: {number.name}: stopped after ")
    assert err.count("\n") == 1


def test_as_json_what_was_made_is_a_whole_object(tiny_opt: Path) -> None:
    running = Generating(tiny_opt, "--json")
    running.wait_ready()
    running.process.send_signal(signal.SIGINT)

    code, out, err = running.end()

    value = json.loads(out)
    assert (code, value["finish_reason"]) == (130, "abort")
    assert 0 < len(value["token_ids"]) < 60
    assert f"stopped after {len(value['token_ids'])} tokens" in err


@pytest.mark.parametrize("delay", [0.2, 0.6, 1.2, 2.0])
@pytest.mark.parametrize("times", [1, 3])
def test_signals_at_any_moment_show_no_traceback(tiny_opt: Path, delay: float, times: int) -> None:
    running = Generating(tiny_opt)
    time.sleep(delay)
    for _ in range(times):
        running.process.send_signal(signal.SIGINT)

    code, _, err = running.end()

    assert code == 130
    assert err.splitlines()[-1].startswith("nullblock: ")

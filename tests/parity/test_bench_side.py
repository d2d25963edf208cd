"""A side is a process behind JSON lines: whatever it does wrong is one sentence, and no wait is without end."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from oracle.generation import Generated, serve
from parity.bench.side import Answer, GenerateProcess, SideFailed

READY = json.dumps({"ready": {"name": "f", "version": "1", "threads": 2, "pool_bytes": 64}, "peak_rss": 1})
GOOD = json.dumps({"seconds": 0.5, "tokens": [[1, 2]], "finish_reasons": ["length"], "peak_rss": 9})


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    """Starts a process of a script in which `say(line)` answers; ended after the test."""
    started: list[GenerateProcess] = []

    def begin(script: str, start_seconds: float = 20, answer_seconds: float = 20) -> GenerateProcess:
        head = "import sys, time\ndef say(line): print(line, flush=True)\n"
        command = [sys.executable, "-c", head + script]
        side = GenerateProcess("fake", command, tmp_path, os.environ, start_seconds, answer_seconds)
        started.append(side)
        return side

    yield begin
    for side in started:
        side.close()


def test_an_answer(start: Any) -> None:
    side = start(f"say({READY!r})\nfor line in sys.stdin: say({GOOD!r})")

    assert side.ready().pool_bytes == 64
    assert side.generate([[5]], 2) == side.generate([[5]], 2) == Answer(0.5, [[1, 2]], ["length"], 9)


def test_a_failed_request_does_not_cost_the_next(start: Any) -> None:
    error = json.dumps({"error": "RuntimeError: no memory"})
    side = start(f"say({READY!r})\nsys.stdin.readline(); say({error!r})\nsys.stdin.readline(); say({GOOD!r})")

    with pytest.raises(SideFailed, match="fake failed: RuntimeError: no memory"):
        side.generate([[5]], 2)

    assert side.generate([[5]], 2).tokens == [[1, 2]]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("sys.exit('no such model')", "fake ended; its last words: no such model"),
        (f"say({READY!r}); sys.stdin.readline(); sys.exit('killed')", "fake ended; its last words: killed"),
        ("say('hello')", "fake broke the protocol .*hello"),
        ("say('{}')", "did not say who it is"),
        (f"say({READY!r}); sys.stdin.readline(); say('{{}}')", "fake broke the protocol"),
        (
            f"say({READY!r}); sys.stdin.readline()\n"
            """say('{"seconds": 1, "tokens": [[1]], "finish_reasons": [], "peak_rss": 1}')""",
            "1 outputs with 0 finish reasons",
        ),
    ],
)
def test_a_broken_side_says_why_now_and_whenever_it_is_asked(start: Any, script: str, reason: str) -> None:
    side = start(script)

    for _ in range(2):
        with pytest.raises(SideFailed, match=reason):
            side.generate([[5]], 2)


def test_a_side_that_never_starts_is_not_waited_for_without_end(start: Any) -> None:
    side = start("time.sleep(60)", start_seconds=0.2)

    with pytest.raises(SideFailed, match=r"no answer for 0\.2 s"):
        side.ready()


def test_a_side_that_never_answers_is_not_waited_for_without_end(start: Any) -> None:
    side = start(f"say({READY!r}); time.sleep(60)", answer_seconds=0.2)

    with pytest.raises(SideFailed, match=r"no answer for 0\.2 s"):
        side.generate([[5]], 2)


def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    side = GenerateProcess("fake", [str(tmp_path / "python")], tmp_path, {})

    with pytest.raises(SideFailed, match="fake cannot be started: No such file"):
        side.ready()


class Doubling:
    def describe(self) -> dict[str, Any]:
        return {"name": "doubling", "version": "1", "threads": 1, "pool_bytes": 0}

    def generate(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> list[Generated]:
        if not prompts:
            raise ValueError("nothing\nto do")
        return [Generated([2 * prompt[0]] * max_tokens, "length") for prompt in prompts]


def test_the_loop_of_a_generating_process() -> None:
    asked = [b'{"prompts": [[1], [2]], "max_tokens": 2}', b'{"prompts": [], "max_tokens": 2}', b"nonsense"]
    sink = io.BytesIO()

    serve(io.BytesIO(b"\n".join(asked) + b"\n"), sink, Doubling())

    ready, good, failed, broken = (json.loads(line) for line in sink.getvalue().splitlines())
    assert ready["ready"]["name"] == "doubling"
    assert (good["tokens"], good["finish_reasons"]) == ([[2, 2], [4, 4]], ["length", "length"])
    assert good["seconds"] > 0
    assert good["peak_rss"] > 1 << 20
    assert failed == {"error": "ValueError: nothing to do"}
    assert broken["error"].startswith("JSONDecodeError")

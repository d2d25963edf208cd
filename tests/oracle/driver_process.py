"""The oracle's driver as a child process, and scenarios in the wire's form, for the tests of the driver."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

ROOT = Path(__file__).resolve().parents[2]
OPT_125M = {
    "name": "opt-125m",
    "num_layers": 12,
    "num_kv_heads": 12,
    "head_size": 64,
    "max_position": 2048,
    "vocab_size": 50272,
}


def oracle_python() -> Path:
    """The interpreter with upstream: $NULLBLOCK_ORACLE_PYTHON, else oracle/.venv's; fails without one."""
    named = os.environ.get("NULLBLOCK_ORACLE_PYTHON")
    python = Path(named) if named else ROOT / "oracle" / ".venv" / "bin" / "python"
    if not python.exists():
        pytest.fail(f"no oracle interpreter at {python}: run `make setup`", pytrace=False)
    return python


class Driver:
    """`python -m oracle.driver` with its pipes. To be used as a context, which ends it."""

    def __init__(self, *arguments: str, python: str | None = None, **environment: str) -> None:
        command = [str(python or oracle_python()), *(arguments or ("-m", "oracle.driver"))]
        self._resources = contextlib.ExitStack()
        self._stderr = self._resources.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 -- the stack closes it
        self.process = self._resources.enter_context(
            subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
            )
        )
        self._seq = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.terminate()  # not kill: it removes its temporary folder
        self._resources.close()

    def stderr(self) -> str:
        """What it has written for people so far."""
        self._stderr.seek(0)
        return self._stderr.read().decode()

    def end_input(self) -> int:
        """Closes its stdin, checks that it says nothing more, and returns its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.stdout is not None
        assert self.process.stdout.read() == b""
        return self.process.wait(timeout=30)

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait(timeout=30)
            pytest.fail(f"the driver ended with {code}: {self.stderr()[-2000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, op: str, **body: Any) -> list[dict[str, Any]]:
        """Sends one request and reads its answers, the last one included."""
        self._seq += 1
        self.send(json.dumps({"seq": self._seq, "op": op, **body}).encode())
        answers = [self.read()]
        while "step" in answers[-1]:
            answers.append(self.read())
        assert {answer["seq"] for answer in answers} == {self._seq}
        return answers

    def plan(self, **keys: Any) -> dict[str, Any]:
        """The plan of a configuration."""
        (answer,) = self.ask("run", scenario=scenario("plan", config(**keys)))
        end: dict[str, Any] = answer["end"]
        return end

    def play(self, requests: list[dict[str, Any]], *, max_steps: int = 2000, **keys: Any) -> Played:
        """The observation of a timeline; `aborts` and `resets` beside the keys of the configuration."""
        aborts, resets = keys.pop("aborts", []), keys.pop("resets", [])
        timeline = {"requests": requests, "aborts": aborts, "resets": resets, "max_steps": max_steps}
        answers = self.ask("run", scenario=scenario("schedule", config(**keys), timeline))
        assert "end" in answers[-1], answers[-1]
        return Played([answer["step"] for answer in answers[:-1]], answers[-1]["end"])


class Played:
    """A schedule's steps and ending, with the questions that the tests ask of them."""

    def __init__(self, steps: list[dict[str, Any]], end: dict[str, Any]) -> None:
        self.steps = steps
        self.plan = end["plan"]
        self.end = end["end"]
        self.outputs = dict(self.end["outputs"])

    def preempted(self) -> list[tuple[int, str]]:
        """(step, request) of each preemption, in order."""
        return [(number, request) for number, step in enumerate(self.steps) for request in step["preempted"]]

    def started(self, request: str) -> int:
        """The step in which `request` ran first."""
        return next(number for number, step in enumerate(self.steps) if request in step["new"])

    def cached(self, request: str) -> list[int]:
        """The cached tokens of each admission of `request`."""
        return [tokens for step in self.steps for name, tokens in step["cached"] if name == request]

    def finished(self) -> dict[str, tuple[int, str]]:
        """Request to (step, reason)."""
        return {
            name: (number, reason)
            for number, step in enumerate(self.steps)
            for name, reason, _ in step["finished"]
        }

    def table(self, request: str, step: int) -> list[int]:
        """The block table of `request` after `schedule()` of `step`."""
        return dict(self.steps[step]["blocks"])[request]


def config(**keys: Any) -> dict[str, Any]:
    """A configuration with the defaults of docs/config.md."""
    defaults = {
        "model": OPT_125M,
        "dtype": "float32",
        "block_size": 16,
        "num_blocks": None,
        "kv_cache_memory_bytes": 1 << 30,
        "max_model_len": "auto",
        "max_num_seqs": 16,
        "max_num_batched_tokens": 8192,
        "enable_chunked_prefill": True,
        "long_prefill_token_threshold": 0,
        "scheduler_reserve_full_isl": True,
        "watermark": 0.0,
        "enable_prefix_caching": True,
        "scheduling_policy": "fcfs",
    }
    assert keys.keys() <= defaults.keys(), keys.keys() - defaults.keys()
    return {**defaults, **keys}


def scenario(
    level: str, configuration: dict[str, Any], timeline: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {"id": "test/one", "level": level, "config": configuration, "timeline": timeline}


def request(name: str, prompt: int | list[int], max_tokens: int, **keys: Any) -> dict[str, Any]:
    """A request of `prompt` tokens that share no prefix with another name's, and `max_tokens` forced ones."""
    base = 1000 * (sum(name.encode()) % 40)
    ids = [base + i for i in range(prompt)] if isinstance(prompt, int) else prompt
    return {
        "id": name,
        "at": 0,
        "arrival": 0,
        "prompt": ids,
        "max_tokens": max_tokens,
        "min_tokens": 0,
        "output": [base + 500 + i for i in range(max_tokens)],
        "eos_token_id": None,
        "ignore_eos": False,
        "stop_token_ids": [],
        "priority": 0,
        "cache_salt": None,
        "prompt_logprobs": None,
        **keys,
    }

"""Fixtures of the parity tests: the committed suite, and the oracle as a plain process that speaks docs/protocol.md."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from parity.observation import Observation, decode
from parity.scenario import Case
from parity.suite import load_suite
from tests.parity.stand_in import checkout, here, stand_in

__all__ = ["checkout", "here", "stand_in"]

ROOT = Path(__file__).resolve().parents[2]

PlayOracle = Callable[[Case], Observation]


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def suite() -> list[Case]:
    return load_suite(ROOT)


class OracleProcess:
    """One oracle driver for a whole test session; every question has an answer or the test fails."""

    def __init__(self, interpreter: Path) -> None:
        self._seq = 0
        self._process = subprocess.Popen(
            [interpreter, "-m", "oracle.driver"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )

    def play(self, case: Case) -> Observation:
        self._send("run", scenario=msgspec.to_builtins(case.scenario))
        steps = []
        while "step" in (answer := self._answer()):
            steps.append(answer["step"])
        end = answer["end"]
        raw = (
            end if case.scenario.level == "plan" else {"plan": end["plan"], "steps": steps, "end": end["end"]}
        )
        return decode(case.scenario.level, raw)

    def close(self) -> None:
        try:
            self._send("stop")
            self._process.communicate(timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.communicate()

    def _send(self, op: str, **body: Any) -> None:
        assert self._process.stdin is not None
        self._seq += 1
        self._process.stdin.write(json.dumps({"seq": self._seq, "op": op, **body}) + "\n")
        self._process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the oracle died with {self._process.wait()}; run `make setup`"
        answer: dict[str, Any] = json.loads(line)
        assert "error" not in answer, answer["error"]
        assert answer["seq"] == self._seq
        return answer


@pytest.fixture(scope="session")
def play_oracle() -> Iterator[PlayOracle]:
    """Play a case on real upstream and give its observation."""
    interpreter = Path(os.environ.get("NULLBLOCK_ORACLE_PYTHON", ROOT / "oracle/.venv/bin/python"))
    if not interpreter.exists():
        pytest.fail(f"no oracle interpreter at {interpreter}: run `make setup`")
    oracle = OracleProcess(interpreter)
    try:
        yield oracle.play
    finally:
        oracle.close()

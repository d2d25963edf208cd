"""The nursery from the harness's side: what a planted driver of the oracle's observes in the whole suite."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from oracle.install import oracle_environment, oracle_python
from parity.detection.material import quick_cases
from parity.errors import InconclusiveError, OracleError
from parity.oracle_side import find_pin, oracle_faults

START_SECONDS = 180.0
MODULE = "parity.detection.nursery"


class Nursery:
    """One warm upstream. As a context it ends its process and all that it started."""

    def __init__(self, root: Path) -> None:
        pin = find_pin(root, None)
        with oracle_faults():
            command = [str(oracle_python(root, pin)), "-m", MODULE]
            environment = oracle_environment(root, pin)
        self._scratch = tempfile.TemporaryDirectory(prefix="nullblock-mutants-")
        self._cases = [case.scenario for case in quick_cases(root)]
        self._questions = Path(self._scratch.name) / "questions"
        asked: list[dict[str, object]] = [{"seq": 0, "op": "hello"}]
        asked += [{"seq": n, "op": "run", "scenario": item} for n, item in enumerate(self._cases, start=1)]
        self._questions.write_bytes(b"".join(msgspec.json.encode(item) + b"\n" for item in asked))
        try:
            self._process = subprocess.Popen(
                command,
                cwd=root,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            self._scratch.cleanup()
            raise OracleError(f"upstream cannot be started: {error}", hint="run `make setup`") from None
        self._children: set[int] = set()

    def __enter__(self) -> Nursery:
        try:
            self._read(START_SECONDS)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def play(self, mutant_id: str | None, seconds: float) -> tuple[str, dict[str, Any]]:
        """How the driver ended (`0`, another code, `hang`), and its observations by scenario, as plain JSON.

        A scenario without one is missing: its answer was an error, out of turn, or did not come.
        """
        folder = Path(tempfile.mkdtemp(dir=self._scratch.name))
        answers = folder / "answers"
        asked = {"mutant": mutant_id, "questions": str(self._questions), "answers": str(answers)}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({**asked, "seconds": seconds}).encode() + b"\n")
        self._process.stdin.flush()
        ended = str(self._read(seconds + START_SECONDS)["ended"])
        lines = answers.read_bytes().splitlines() if answers.exists() else []
        return ended, _observations([case.id for case in self._cases], lines)

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._scratch.cleanup()

    def _read(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if select.select([self._process.stdout], [], [], 0.2)[0]:
                line = self._process.stdout.readline()
                if not line:
                    break
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise InconclusiveError(
            "upstream for the driver's mutants did not answer", hint="run `parity oracle verify`"
        )


def _observations(ids: list[str], lines: list[bytes]) -> dict[str, Any]:
    """The answers put together as `parity.process_side` does: in turn, steps before their end."""
    observations: dict[str, Any] = {}
    steps: list[Any] = []
    at = 0
    for line in lines:
        try:
            message = msgspec.json.decode(line)
        except msgspec.DecodeError:
            break
        if not isinstance(message, dict) or message.get("seq") != at:
            break
        if "step" in message:
            steps.append(message["step"])
            continue
        if at > 0 and "end" in message:
            end = message["end"]
            observations[ids[at - 1]] = (
                {**end, "steps": steps} if isinstance(end, dict) and "end" in end else end
            )
        elif at > 0 and "error" not in message:
            break
        at, steps = at + 1, []
        if at > len(ids):
            break
    return observations

"""Ctrl-C in a run with servers, at its worst moments: one line, 130, the unfinished run kept, and no process left."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from parity.interrupts import GRACE_SECONDS
from parity.serve.keeper import below
from tests.parity.serve.kit import FAKE, ROOT, wait_gone

SCRIPT = "serving/decode-wall/out-10"
HARNESS = """
import sys
from pathlib import Path
import pytest
from parity import root, session
from parity.cli.main import main
from parity.subjects import players
from parity.subjects.subject import load_subject
from tests.parity.stand_in import MEASURED, serve_instead_of_upstream

checkout, subject, *words = sys.argv[1:]
serve_instead_of_upstream(pytest.MonkeyPatch(), load_subject(Path(subject)).subject.door.serve.launcher("fake"))
root.project_root = lambda: Path(checkout)
session.measure_oracle = lambda *_: MEASURED
players.check_models = lambda _: None
raise SystemExit(main(["run", *words, "--subject", subject]))
"""


class Running(subprocess.Popen[str]):
    """A run in a process group of its own, as in a terminal."""

    def __init__(self, checkout: Path, vice: str) -> None:
        self.folder = checkout
        subject = checkout / "fake.toml"
        subject.write_text(
            'name = "fake"\nmirrors = "vllm"\nlevels = ["serve"]\ncapabilities = "all"\n'
            'records = "records"\nsuite = "0.1"\n[door.serve]\n'
            f'command = ["{{python}}", "{FAKE}", "{{port}}", "{vice}", "{{model}}"]\n'
            'ready = {path = "/health", seconds = 60}\n'
            "flags = {num_blocks = [], max_model_len = []}\n"
        )
        words = [SCRIPT, "--out", str(checkout / "run.jsonl")]
        super().__init__(
            [sys.executable, "-c", textwrap.dedent(HARNESS), str(checkout), str(subject), *words],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def wait_for(self, text: str) -> list[int]:
        """Until both servers' logs have it; the processes below the run."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            logs = [log.read_text() for log in self.folder.glob("runs/logs/*/*.log")]
            if sum(text in log for log in logs) == 2:
                return below(self.pid)
            assert self.poll() is None, self.communicate()
            time.sleep(0.05)
        raise AssertionError(f"no two logs with {text!r}")

    def interrupt(self) -> None:
        os.killpg(self.pid, signal.SIGINT)


@contextlib.contextmanager
def running(checkout: Path, vice: str) -> Iterator[Running]:
    (checkout / ".models" / "tiny-opt").mkdir(parents=True)
    run = Running(checkout, vice)
    try:
        yield run
    finally:
        run.kill()
        run.communicate()


def check_end(run: Running, pids: list[int]) -> None:
    out, err = run.communicate(timeout=60)
    assert run.returncode == 130, err
    assert out == ""
    part = run.folder / "run.jsonl.part"
    last = f"parity: interrupted; what was played so far is in {part}, which is no finished run"
    assert err.splitlines()[-1] == last
    assert err.count("parity:") == 1
    assert "Traceback" not in err
    assert part.is_file()
    assert not (run.folder / "run.jsonl").exists()
    assert len(pids) >= 4  # a keeper and a server a side
    assert wait_gone(pids, 0.5) == []


@pytest.mark.parametrize(
    ("vice", "moment"), [("never ready", "starting"), ("hangs in scripts", "asked for its load")]
)
def test_ctrl_c_ends_a_run_with_servers(checkout: Path, vice: str, moment: str) -> None:
    with running(checkout, vice) as run:
        pids = run.wait_for(moment)

        run.interrupt()

        check_end(run, pids)


def test_a_second_ctrl_c_ends_at_once_and_leaves_no_process(checkout: Path) -> None:
    """The servers take no notice of SIGTERM, so that their ends would take seconds."""
    with running(checkout, "never ready, deaf") as run:
        pids = run.wait_for("starting")

        run.interrupt()
        time.sleep(0.5)
        assert run.poll() is None, "the clean-up was over before the second Ctrl-C"
        began = time.monotonic()
        run.interrupt()

        out, err = run.communicate(timeout=60)
        assert time.monotonic() - began < 2 * GRACE_SECONDS + 0.5
        assert run.returncode == 130
        assert "Traceback" not in err
        assert out == ""
        assert (run.folder / "run.jsonl.part").is_file()
        assert wait_gone(pids, 0.5) == []

"""Ctrl-C in a hunt, at its worst moments: a line that says what becomes of it, 130, no traceback, and no process left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from parity.fuzz.log import NAME, read_log
from parity.interrupts import GRACE_SECONDS
from parity.serve.keeper import below
from tests.parity.serve.kit import ROOT, wait_gone

DRIVER = Path(__file__).with_name("twin_driver.py")
# What is patched here is patched in the hunt's processes as well: each begins with this file.
HARNESS = """
import os, sys
from pathlib import Path
from parity.cli import hunting
from parity.cli.main import main
from parity.process_side import ProcessSide
from parity.subjects import players
from tests.parity.stand_in import MEASURED

checkout, driver = Path(os.environ["CHECKOUT"]), os.environ["DRIVER"].split()

def start(_root, _pin, limits, _way, news):
    return ProcessSide("oracle", [sys.executable, *driver], checkout, dict(os.environ), limits, news=news)

players.start_oracle = start
hunting.measure_oracle = lambda *_: MEASURED
hunting.project_root = lambda: checkout
if __name__ == "__main__":
    raise SystemExit(main())
"""

SLOW_START = "60 0"  # seconds until the driver greets, and of each play
SLOW_PLAYS = "0 0.02"
Hunt = Callable[..., "Hunting"]


class Hunting(subprocess.Popen[str]):
    """A hunt in a process group of its own, as in a terminal."""

    def __init__(self, checkout: Path, driver: str, jobs: int) -> None:
        self.folder = checkout / "hunt"
        self.said = checkout / "stderr"
        script = checkout / "harness.py"
        script.write_text(HARNESS)
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "CHECKOUT": str(checkout),
            "DRIVER": f"{DRIVER} {driver}",
        }
        words = ["fuzz", "--level", "plan", "--jobs", str(jobs), "--scenarios", "100000"]
        with self.said.open("w") as errors:
            super().__init__(
                [sys.executable, script, *words, "--out", str(self.folder)],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                process_group=0,
            )

    def wait_for(self, there: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30
        while not there():
            assert time.monotonic() < deadline, self.said.read_text()
            assert self.poll() is None, self.said.read_text()
            time.sleep(0.01)

    def wait_for_line(self, text: str) -> None:
        self.wait_for(lambda: text in self.said.read_text())

    def wait_for_drivers(self, number: int) -> None:
        self.wait_for(lambda: sum(str(DRIVER) in _command(process) for process in below(self.pid)) == number)

    def interrupt(self) -> None:
        os.killpg(self.pid, signal.SIGINT)


def _command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return ""


@pytest.fixture
def hunt(checkout: Path) -> Iterator[Hunt]:
    hunts: list[Hunting] = []

    def start(driver: str, jobs: int) -> Hunting:
        hunts.append(Hunting(checkout, driver, jobs))
        return hunts[-1]

    yield start
    for one in hunts:
        one.kill()
        one.communicate()


def check_end(hunt: Hunting, processes: list[int], within: float) -> str:
    """What it printed."""
    began = time.monotonic()
    out, _ = hunt.communicate(timeout=30)
    took = time.monotonic() - began
    error = hunt.said.read_text()
    told = (
        f"interrupted: ending both sides; what was done is in {hunt.folder.relative_to(hunt.folder.parent)}"
    )
    assert hunt.returncode == 130, error
    assert error.count("interrupted") == 1
    assert f"{told}/hunt.jsonl (once more ends at once)" in error.replace(f"{hunt.folder.parent}/", "")
    assert "Traceback" not in error
    assert "Warning" not in error
    assert took < within
    assert wait_gone(processes, 0.5) == []
    assert read_log(hunt.folder).header.level == "plan"
    return out


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_while_the_sides_start(jobs: int, hunt: Hunt) -> None:
    one = hunt(SLOW_START, jobs)
    one.wait_for_drivers(jobs)
    processes = below(one.pid)

    one.interrupt()

    assert "nothing was played" in check_end(one, processes, within=10)


@pytest.mark.parametrize("moment", [0.0, 0.1, 0.4])
def test_ctrl_c_while_the_hunts_processes_start(moment: float, hunt: Hunt) -> None:
    """They are in the terminal's group, and hear it before they could say that it is not for them."""
    one = hunt(SLOW_START, 2)
    one.wait_for_line("starting both sides")
    time.sleep(moment)
    processes = below(one.pid)

    one.interrupt()

    check_end(one, processes, within=10)


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_while_units_are_played(jobs: int, hunt: Hunt) -> None:
    one = hunt(SLOW_PLAYS, jobs)
    log = one.folder / NAME
    one.wait_for(lambda: log.exists() and log.read_text().count("\n") > 1)
    processes = below(one.pid)

    one.interrupt()

    out = check_end(one, processes, within=10)
    played = sum(done.scenarios for done in read_log(one.folder).units)
    assert f"{played:,} scenarios in" in out


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_second_ctrl_c_ends_at_once(jobs: int, hunt: Hunt) -> None:
    """The drivers take no notice of SIGTERM, so that the end would take seconds."""
    one = hunt(f"{SLOW_START} deaf", jobs)
    one.wait_for(lambda: len(list(one.folder.parent.glob("deaf-*"))) == jobs)
    processes = below(one.pid)

    one.interrupt()
    one.wait_for_line("interrupted")
    time.sleep(0.5)
    one.interrupt()

    assert check_end(one, processes, within=2 * GRACE_SECONDS + 0.5) == ""


def test_a_process_of_a_hunt_that_dies_is_told(hunt: Hunt) -> None:
    one = hunt(SLOW_PLAYS, 2)
    one.wait_for_drivers(2)
    first = next(process for process in below(one.pid) if "spawn_main" in _command(process))

    os.kill(first, signal.SIGKILL)

    one.wait_for_line("a process of the hunt died; its work is begun again in another one …")
    one.interrupt()
    check_end(one, below(one.pid), within=10)

"""What the tests of servers share: a configuration, a launcher of the fake server, and whether a process lives."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from parity.serve.launcher import Launcher, Ready
from parity.serve.server import Server, start
from tests.parity.served import server_config

ROOT = Path(__file__).resolve().parents[3]
FAKE = Path(__file__).with_name("fake_server.py")


def fake_launcher(*vice: str, seconds: float = 20.0) -> Launcher:
    return Launcher(
        name="fake",
        command=["{python}", str(FAKE), "{port}", *vice],
        ready=Ready("/health", seconds),
        flags={"num_blocks": [], "generation_config": ["{}"]},
        environment={"FAKE": "by the launcher"},
    )


def start_fake(folder: Path, launcher: Launcher, **changes: Any) -> Server:
    """A fake server that serves the (empty) model `folder`/tiny-opt; its log is `folder`/logs/fake.log."""
    (folder / "tiny-opt").mkdir(exist_ok=True)
    return start(
        launcher,
        server_config(**changes),
        name="subject",
        python=sys.executable,
        models=folder,
        root=ROOT,
        environment=os.environ,
        log=folder / "logs" / "fake.log",
    )


def lives(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def wait_gone(pids: Iterable[int], seconds: float = 15.0) -> list[int]:
    """Those that still live after so long: none, one hopes."""
    deadline = time.monotonic() + seconds
    left = list(pids)
    while left and time.monotonic() < deadline:
        left = [pid for pid in left if lives(pid)]
        time.sleep(0.02)
    return left

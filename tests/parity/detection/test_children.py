"""Children: what hangs is bounded, what dies is told, and nothing of them stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from parity.detection import children
from parity.detection.children import Answer, Task, run_all


def alone(work: object, seconds: float = 20.0) -> Answer[str]:
    (answer,) = run_all([Task("one", work, seconds)], 1)  # type: ignore[arg-type]
    return answer


def test_a_childs_value_comes_back_as_json() -> None:
    answer = alone(lambda: {"a": [1, None]})

    assert (answer.value, answer.failure) == ({"a": [1, None]}, None)


def test_what_a_child_changes_stays_in_it() -> None:
    seen: list[int] = []

    assert alone(lambda: seen.append(1)).value is None
    assert seen == []


def test_a_child_that_hangs_is_bounded() -> None:
    began = time.monotonic()
    answer = alone(lambda: time.sleep(60), seconds=0.3)

    assert answer.failure == "hang"
    assert time.monotonic() - began < 0.3 + children.GRACE


def test_a_child_that_does_not_listen_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "GRACE", 0.3)

    def deaf() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        time.sleep(60)

    assert alone(deaf, seconds=0.3).failure == "hang"


def test_a_child_that_raises_or_is_killed_died() -> None:
    assert alone(lambda: 1 // 0).failure == "died"
    assert alone(lambda: os.kill(os.getpid(), signal.SIGKILL)).failure == "died"


def test_a_child_that_eats_memory_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "MEMORY", 256 << 20)

    assert alone(lambda: len(bytearray(1 << 30))).failure == "died"


def test_what_a_child_started_ends_with_it(tmp_path: Path) -> None:
    note = tmp_path / "pid"

    def leave_one() -> None:
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        note.write_text(str(process.pid))

    assert alone(leave_one).failure is None
    assert ends(int(note.read_text()))


def test_children_run_at_once_and_each_has_its_own_answer() -> None:
    began = time.monotonic()
    tasks = [Task(number, lambda number=number: time.sleep(0.4) or number, 20.0) for number in range(4)]  # type: ignore[misc]

    answers = {answer.key: answer.value for answer in run_all(tasks, 4)}

    assert answers == {0: 0, 1: 1, 2: 2, 3: 3}
    assert time.monotonic() - began < 4 * 0.4


def test_a_loop_that_is_left_ends_the_children() -> None:
    tasks = [Task("quick", os.getpid, 20.0), Task("slow", lambda: time.sleep(60), 60.0)]
    running = run_all(tasks, 2)
    next(running)

    began = time.monotonic()
    running.close()  # type: ignore[attr-defined]

    assert time.monotonic() - began < 10


def ends(pid: int) -> bool:
    """Whether this process is gone within a while."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False

"""The guardian on its own: what it says of a server, and what it leaves of one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from parity.serve import keeper
from tests.parity.serve.fake_server import DEAF
from tests.parity.serve.kit import lives, wait_gone

SLEEPS = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
TIDY = """
import atexit, os, signal, sys, time
path = os.path.join(sys.argv[1], "tidied")
signal.signal(signal.SIGTERM, lambda *_: (open(path, "w").close(), sys.exit(0)))
print("up", flush=True)
time.sleep(600)
"""
PARENT = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {DEAF!r}])
child.wait()
"""
LEAVES = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {DEAF!r}], stdout=subprocess.PIPE, text=True)
print(child.stdout.readline(), flush=True)
"""


class Talk:
    """A keeper and what it says."""

    def __init__(self, process: subprocess.Popen[str], log: Path, scratch: Path) -> None:
        self.process = process
        self.log = log
        self.scratch = scratch

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line: dict[str, Any] = json.loads(self.process.stdout.readline() or '{"silent": true}')
        return line

    def let_go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait_log(self) -> str:
        """The first line that the server prints."""
        deadline = time.monotonic() + 15
        while not (text := self.log.read_text()).endswith("\n"):
            assert time.monotonic() < deadline, "the server prints nothing"
            time.sleep(0.02)
        return text.strip()


@contextmanager
def keeping(folder: Path, *command: str) -> Iterator[Talk]:
    log, scratch = folder / "log", folder / "scratch"
    scratch.mkdir()
    (scratch / "socket").touch()
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", keeper.__file__, str(log), str(scratch), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    talk = Talk(process, log, scratch)
    try:
        yield talk
    finally:
        talk.let_go()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


@pytest.mark.parametrize(("end", "code"), [("sys.exit(3)", 3), ("os.kill(os.getpid(), 9)", -9), ("", 0)])
def test_it_tells_the_pid_and_how_the_server_ended(tmp_path: Path, end: str, code: int) -> None:
    with keeping(
        tmp_path, *python(f"import os, sys; print(os.getpid(), os.getpgid(0)); sys.stdout.flush(); {end}")
    ) as talk:
        pid = talk.hear()["started"]

        assert talk.hear() == {"ended": code}
        assert talk.hear() == {"orphans": 0}
        assert talk.hear() == {"silent": True}
        assert talk.process.wait(5) == 0
        assert talk.wait_log() == f"{pid} {pid}"  # a process group of its own
        assert not talk.scratch.exists()


def test_output_and_errors_go_to_the_log_in_order(tmp_path: Path) -> None:
    code = "import os; os.write(1, b'one '); os.write(2, b'two '); os.write(1, b'three\\n')"
    with keeping(tmp_path, *python(code)) as talk:
        talk.hear(), talk.hear()

        assert talk.log.read_text() == "one two three\n"


def test_whoever_outlives_the_server_is_counted_and_ended_even_from_a_session_of_its_own(
    tmp_path: Path,
) -> None:
    with keeping(tmp_path, *python(LEAVES)) as talk:
        talk.hear()
        assert talk.hear() == {"ended": 0}
        ended = time.monotonic()
        orphan = int(talk.wait_log())
        assert lives(orphan)

        assert talk.hear() == {"orphans": 1}

        assert time.monotonic() - ended > keeper.ORPHAN_SECONDS - 0.2
        assert wait_gone([orphan]) == []
        assert talk.process.wait(5) == 0


def test_a_helper_that_goes_soon_is_no_orphan(tmp_path: Path) -> None:
    code = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(0.3)'])"
    with keeping(tmp_path, *python(code)) as talk:
        talk.hear()

        assert talk.hear() == {"ended": 0}
        assert talk.hear() == {"orphans": 0}


def test_without_its_lifeline_the_server_is_asked_to_end_first(tmp_path: Path) -> None:
    with keeping(tmp_path, *python(TIDY, str(tmp_path))) as talk:
        talk.hear()
        talk.wait_log()

        talk.let_go()

        assert talk.hear() == {"ended": 0}
        assert talk.process.wait(5) == 0
        assert (tmp_path / "tidied").exists()
        assert not talk.scratch.exists()


def test_a_server_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    with keeping(tmp_path, *python(STUBBORN)) as talk:
        talk.hear()
        talk.wait_log()
        begun = time.monotonic()

        talk.let_go()

        assert talk.hear() == {"ended": -signal.SIGKILL}
        assert time.monotonic() - begun > keeper.TERM_SECONDS - 0.2


def test_without_its_lifeline_nothing_below_the_server_is_left(tmp_path: Path) -> None:
    with keeping(tmp_path, *python(PARENT)) as talk:
        server = talk.hear()["started"]
        helper = int(talk.wait_log())

        talk.let_go()

        assert wait_gone([server, helper]) == []
        assert talk.process.wait(15) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_keeper_is_a_request_to_end(tmp_path: Path, number: signal.Signals) -> None:
    with keeping(tmp_path, *python(SLEEPS)) as talk:
        server = talk.hear()["started"]
        talk.wait_log()

        talk.process.send_signal(number)

        assert talk.hear() == {"ended": -signal.SIGTERM}
        assert wait_gone([server]) == []


def test_the_server_has_every_signals_default_whatever_its_starter_ignores(tmp_path: Path) -> None:
    """A shell that starts a job in the background has it ignore SIGINT, and ignoring is inherited."""
    code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with keeping(tmp_path, *python(code)) as talk:
            talk.hear()
            assert talk.wait_log() == "True"
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_command_that_is_not_there_is_told(tmp_path: Path) -> None:
    with keeping(tmp_path, str(tmp_path / "no-server")) as talk:
        assert talk.hear() == {"failed": f"{tmp_path / 'no-server'}: No such file or directory"}
        assert talk.process.wait(5) == 1
        assert not talk.scratch.exists()


def test_below_a_process_are_its_children_and_theirs(tmp_path: Path) -> None:
    with keeping(tmp_path, *python(PARENT)) as talk:
        server = talk.hear()["started"]
        helper = int(talk.wait_log())

        assert keeper.below(talk.process.pid) == sorted([server, helper])
        assert {talk.process.pid, server, helper} <= set(keeper.below(os.getpid()))
        assert keeper.below(helper) == []

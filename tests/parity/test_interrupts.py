"""Requests to end: the first raises where that is safe, the second ends all that was started, and a pair at once is one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from parity.interrupts import GRACE_SECONDS, INTERRUPTED, TOGETHER_SECONDS
from parity.root import CODE_ROOT
from tests.parity.serve.kit import lives

BEGIN = f"""
import os, signal, subprocess, sys, time
from parity import interrupts
from parity.interrupts import *
take_over()
def ask(number=signal.SIGINT):
    os.kill(os.getpid(), number)
def later():
    time.sleep({TOGETHER_SECONDS} + 0.05)
def say(line):
    print(line, flush=True)
"""


def ran(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BEGIN + script],
        cwd=CODE_ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("signal_", ["SIGINT", "SIGTERM"])
def test_the_first_request_raises_and_tells(signal_: str) -> None:
    done = ran(
        f"try:\n    with telling('told'):\n        ask(signal.{signal_})\nexcept KeyboardInterrupt:\n    say('unwound')\n"
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "unwound\n", "told\n")


def test_two_signals_at_once_are_one_request() -> None:
    """As `timeout` sends them, to the process and to its group."""
    done = ran("try:\n    ask()\nexcept KeyboardInterrupt:\n    ask()\n    say('unwound')\n")

    assert (done.returncode, done.stdout) == (0, "unwound\n")


def test_a_second_request_ends_at_once() -> None:
    done = ran("try:\n    ask()\nexcept KeyboardInterrupt:\n    later()\n    ask()\n    say('still here')\n")

    assert (done.returncode, done.stdout, done.stderr) == (INTERRUPTED, "", "")


def test_clean_up_is_not_interrupted_by_a_first_request_and_is_by_a_second() -> None:
    one = "with uninterrupted():\n    ask()\n    say('cleaned')\n"

    assert ran(one + "say('on')\n").stdout == "cleaned\non\n"
    again = ran(one + "later()\nwith uninterrupted():\n    ask()\n    say('still here')\n")
    assert (again.returncode, again.stdout) == (INTERRUPTED, "cleaned\n")


def test_a_start_is_over_before_a_request_raises() -> None:
    done = ran(
        "try:\n    with postponed():\n        ask(signal.SIGTERM)\n        say('started')\n    say('still here')\n"
        "except KeyboardInterrupt:\n    say('unwound')\n"
    )

    assert (done.returncode, done.stdout) == (0, "started\nunwound\n")


def test_a_child_that_starts_does_not_hear_the_terminal() -> None:
    """Nor is a request that comes meanwhile lost."""
    child = "import os, signal; os.kill(os.getpid(), signal.SIGINT); print('not heard', flush=True)"
    done = ran(
        f"try:\n    with postponed():\n        subprocess.run([sys.executable, '-c', {child!r}])\n        ask()\n"
        "except KeyboardInterrupt:\n    say('unwound')\n"
    )

    assert (done.stdout, done.stderr) == ("not heard\nunwound\n", "")


@pytest.mark.parametrize("is_deaf", [False, True])
def test_what_is_registered_ends_with_us(is_deaf: bool) -> None:
    deafness = "signal.signal(signal.SIGTERM, signal.SIG_IGN); " if is_deaf else ""
    child = f"import signal, time; {deafness}print('there', flush=True); time.sleep(60)"
    began = time.monotonic()

    done = ran(
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], stdout=subprocess.PIPE, start_new_session=True)\n"
        "child.stdout.readline()\nregister(child.pid)\nsay(child.pid)\nend_at_once()\n"
    )

    assert done.returncode == INTERRUPTED
    assert not lives(int(done.stdout))
    assert (time.monotonic() - began > GRACE_SECONDS) or not is_deaf


def test_a_forked_child_has_no_say_in_what_its_parent_started() -> None:
    done = ran(
        "child = subprocess.Popen(['sleep', '60'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\nregister(child.pid)\n"
        "fork = os.fork()\nif fork == 0:\n    end_at_once()\n"
        "os.waitpid(fork, 0)\nsay(child.poll())\nchild.kill()\nchild.wait()\n"
    )

    assert done.stdout == "None\n"


def test_what_has_ended_is_left_alone() -> None:
    done = ran(
        "child = subprocess.Popen(['sleep', '60'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\nregister(child.pid)\n"
        "unregister(child.pid)\nsay(child.pid)\nend_at_once()\n"
    )

    assert lives(int(done.stdout))
    os.kill(int(done.stdout), signal.SIGKILL)

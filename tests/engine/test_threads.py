"""How waiting is chosen before torch is there, and work that leaves no thread behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from engine.threads import SETTINGS, SPINS, run_apart

SAYS = "import os; from engine.threads import spin_briefly; spin_briefly(); print(os.environ.get('GOMP_SPINCOUNT'))"


def said(program: str, **settings: str) -> str:
    env = {name: value for name, value in os.environ.items() if name not in SETTINGS} | settings
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_spins_are_bounded_before_torch_is_imported() -> None:
    assert said(SAYS) == SPINS


@pytest.mark.parametrize(("name", "value"), [("GOMP_SPINCOUNT", "7"), ("OMP_WAIT_POLICY", "passive")])
def test_what_the_user_set_is_kept(name: str, value: str) -> None:
    assert said(SAYS, **{name: value}) == ("7" if name == "GOMP_SPINCOUNT" else "None")


def test_once_torch_is_there_it_is_too_late_and_nothing_is_pretended() -> None:
    assert said("import sys; sys.modules['torch'] = sys; " + SAYS) == "None"


def test_work_apart_runs_in_a_thread_that_is_gone_after_it() -> None:
    ran_in = run_apart(threading.current_thread)

    assert ran_in is not threading.current_thread()
    assert not ran_in.is_alive()


def test_what_work_apart_raises_is_raised_here() -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_apart(fail)

"""What every mutant is held against: the suite's scenarios as the oracle plays them, asked once a run.

The oracle's lines are kept as JSON, so that a process whose modules are new can read them with its own types.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from parity.errors import InconclusiveError
from parity.oracle_side import find_pin, measure_oracle, start_oracle
from parity.process_side import ProcessSide
from parity.scenario import Case, Scenario
from parity.suite import load_suite

Say = Callable[[str], None]


class Material(msgspec.Struct, frozen=True):
    """The oracle's observation of each scenario of the levels plan and schedule, by id, as plain JSON."""

    observations: dict[str, Any]


def quick_cases(root: Path) -> list[Case]:
    """What `parity check --quick` plays."""
    return [case for case in load_suite(root) if isinstance(case.scenario, Scenario) and not case.full]


def take(root: Path, say: Say) -> Material:
    """Play the suite on the live oracle. Raises OracleError, and InconclusiveError where it fails in a scenario."""
    pin = find_pin(root, None)
    measured = measure_oracle(root, pin)
    say(f"starting vLLM {measured.version}")
    side = start_oracle(root, pin)
    try:
        side.hello()
        began = time.perf_counter()
        cases = quick_cases(root)
        observations = {case.id: _play(side, case) for case in cases}
    finally:
        side.close()
    say(f"{len(cases)} scenarios played on it in {time.perf_counter() - began:.1f} s")
    return Material(observations)


def _play(side: ProcessSide, case: Case) -> Any:
    assert isinstance(case.scenario, Scenario)
    side.begin(case.scenario)
    play = side.finish()
    if play.observation is None:
        raise InconclusiveError(f"the oracle failed in {case.id}: {play.failure}")
    return msgspec.to_builtins(play.observation)

"""The step ratio: both sides' time on the same plan and schedule scenarios in one run.

Sides are played one after the other (not at once), in alternating order, in several rounds; the figure is the
median of the rounds' ratios, since machines are noisy.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oracle.pins import Pin
from parity.bench.figures import Figure, Spread
from parity.engine_side import EngineSide
from parity.errors import InconclusiveError
from parity.oracle_side import start_oracle
from parity.scenario import Case
from parity.side import Side
from parity.suite import load_suite

TARGET = 0.25  # of the oracle's time: what the engine's side may take on plan and schedule scenarios


def ratio(root: Path, pin: Pin, rounds: int) -> Figure:
    """The engine's time over the oracle's, on every plan and schedule scenario of `root`."""
    cases = [case for case in load_suite(root) if case.scenario.level != "serve"]
    oracle = start_oracle(root, pin)
    try:
        oracle.hello()
        return measure(cases, oracle, EngineSide(), rounds)
    finally:
        oracle.close()


def measure(cases: Sequence[Case], oracle: Side[Any], subject: Side[Any], rounds: int) -> Figure:
    """Play the cases on both sides in turn. A play that fails leaves no figure, and its reason."""
    what = f"{len(cases)} plan and schedule scenarios: engine / oracle"
    pairs: list[tuple[float, float]] = []
    try:
        for number in range(rounds):
            order = (oracle, subject) if number % 2 == 0 else (subject, oracle)
            seconds = {side.name: seconds_of(side, cases) for side in order}
            pairs.append((seconds[oracle.name], seconds[subject.name]))
    except InconclusiveError as error:
        return Figure(what, None, TARGET, "at most", str(error))
    theirs = statistics.median(seconds for seconds, _ in pairs)
    ours = statistics.median(seconds for _, seconds in pairs)
    return Figure(
        what,
        Spread.of([ours / theirs for theirs, ours in pairs]),
        TARGET,
        "at most",
        f"{ours:.3f} s, {theirs:.3f} s",
    )


def seconds_of(side: Side[Any], cases: Sequence[Case]) -> float:
    """The side's own time for one pass over the cases. Raises InconclusiveError when a play fails."""
    total = 0.0
    for case in cases:
        side.begin(case.scenario)
        play = side.finish()
        if play.failure is not None:
            raise InconclusiveError(f"{side.name} failed in {case.id}: {play.failure}")
        total += play.seconds
    return total

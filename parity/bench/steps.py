"""`make bench`: both sides' time on the same scenarios in one run, as a ratio, since machines are noisy.

Sides are played one after the other (not at once), in alternating order, in several rounds; the figure is the
median of the rounds' ratios, with the smallest and the largest beside it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.progress import Progress

from parity.engine_side import EngineSide
from parity.errors import InconclusiveError
from parity.oracle_side import find_pin, measure_oracle, start_oracle
from parity.root import project_root
from parity.scenario import Case
from parity.side import Side
from parity.suite import load_suite

TARGET = 0.25  # of the oracle's time: what the engine's side may take on plan and schedule scenarios


def seconds_of(side: Side, cases: Sequence[Case]) -> float:
    """The side's own time for one pass over the cases. Raises InconclusiveError when a play fails."""
    total = 0.0
    for case in cases:
        side.begin(case.scenario)
        play = side.finish()
        if play.failure is not None:
            raise InconclusiveError(f"{side.name} failed in {case.id}: {play.failure}")
        total += play.seconds
    return total


def measure(cases: Sequence[Case], oracle: Side, subject: Side, rounds: int) -> dict[str, float | int]:
    pairs: list[tuple[float, float]] = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("rounds", total=rounds)
        for number in range(rounds):
            if number % 2:
                ours = seconds_of(subject, cases)
                theirs = seconds_of(oracle, cases)
            else:
                theirs = seconds_of(oracle, cases)
                ours = seconds_of(subject, cases)
            pairs.append((theirs, ours))
            progress.advance(bar)
    ratios = [ours / theirs for theirs, ours in pairs]
    return {
        "scenarios": len(cases),
        "rounds": rounds,
        "oracle_seconds": statistics.median(theirs for theirs, _ in pairs),
        "engine_seconds": statistics.median(ours for _, ours in pairs),
        "ratio": statistics.median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
        "target": TARGET,
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    root = project_root()
    pin = find_pin(root, None)
    measure_oracle(root, pin)
    oracle = start_oracle(root, pin)
    try:
        oracle.hello()
        figures = measure(load_suite(root), oracle, EngineSide(), args.rounds)
    finally:
        oracle.close()
    if args.json:
        json.dump(figures, sys.stdout)
        print()
    else:
        print(
            f"step ratio over {figures['scenarios']} plan and schedule scenarios, {figures['rounds']} rounds:\n"
            f"  oracle {figures['oracle_seconds']:.3f} s, engine {figures['engine_seconds']:.3f} s (medians)\n"
            f"  engine / oracle = {figures['ratio']:.3f}"
            f" (min {figures['ratio_min']:.3f}, max {figures['ratio_max']:.3f}); should be at most {TARGET}"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

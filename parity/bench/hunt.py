"""How fast a hunt is: scenarios a second with both sides live, and what of the time is the harness's own.

Making scenarios and the start of the sides are not counted, and told apart.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from oracle.pins import Pin
from oracle.verify import Measured
from parity.bench.figures import Figure, Spread
from parity.errors import ParityError
from parity.fuzz.campaign import Campaign, Plan
from parity.fuzz.crew import Processes
from parity.fuzz.tally import Tally
from parity.fuzz.unit import SIZE
from parity.fuzz.worker import Post

SCENARIOS = 2000  # a round
RATE_TARGET = 80.0  # schedule scenarios a second on two cores
SHARE_TARGET = 0.25  # of what is not making


def figures(root: Path, pin: Pin, measured: Measured, rounds: int) -> list[Figure]:
    """The rate and the harness's share at level schedule, one process a core; each round has another seed."""
    jobs = os.cpu_count() or 1
    rate_of = f"schedule scenarios a second, both sides live, {jobs} jobs"
    try:
        with closing(Processes(Post(root, pin, measured, "schedule", {}), jobs)) as crew:
            tallies = [hunted(crew, seed) for seed in range(rounds)]
    except ParityError as error:
        return [Figure(rate_of, None, RATE_TARGET, "at least", str(error))]
    return measure(tallies, jobs, rate_of)


def hunted(crew: Processes, seed: int) -> Tally:
    """One round."""
    plan = Plan("schedule", seed, SIZE, {}, (1, 1), None, SCENARIOS, keep_going=True)
    return Campaign(plan, crew).run()


def measure(tallies: Sequence[Tally], jobs: int, rate_of: str) -> list[Figure]:
    """The two figures of some rounds."""
    rates, whole_rates, shares = [], [], []
    for tally in tallies:
        spent = tally.spent
        rates.append(jobs * tally.scenarios / (spent.playing + spent.judging))
        whole_rates.append(jobs * tally.scenarios / spent.whole)
        shares.append(spent.judging / (spent.playing + spent.judging))
    making = sum(tally.spent.making for tally in tallies) / sum(tally.spent.whole for tally in tallies)
    steps = ", ".join(f"{tally.median_steps:g}" for tally in tallies)
    made = f"median steps {steps}; with the making of scenarios ({making:.0%} of the time) {min(whole_rates):.0f} to {max(whole_rates):.0f}"
    return [
        Figure(rate_of, Spread.of(rates), RATE_TARGET, "at least", made),
        Figure("harness's own share of a hunt's time", Spread.of(shares), SHARE_TARGET, "at most", ""),
    ]

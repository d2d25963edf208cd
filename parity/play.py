"""Plays a case on two sides at once, as often as asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from parity.finding import Plays
from parity.observation import Observation
from parity.scenario import Case
from parity.side import Play, Side


def play_case(case: Case, oracle: Side[Any], subject: Side[Any], times: int) -> tuple[Plays, Plays]:
    """Both sides' plays of one case. A side that fails once is not asked again for this case."""
    ours: list[Play] = []
    theirs: list[Play] = []
    for _ in range(times):
        oracle.begin(case.scenario)
        subject.begin(case.scenario)
        ours.append(subject.finish())
        theirs.append(oracle.finish())
        if ours[-1].failure or theirs[-1].failure:
            break
    return _gather(oracle.name, theirs), _gather(subject.name, ours)


def _gather(name: str, plays: Sequence[Play]) -> Plays:
    observations: list[Observation] = [play.observation for play in plays if play.observation is not None]
    failures = [play for play in plays if play.failure is not None]
    failure = None
    if failures:
        last = failures[-1]
        failure = f"{name}: {last.failure}" + (f" (after {len(last.steps)} steps)" if last.steps else "")
    steps = failures[-1].steps if failures else ()
    return Plays(tuple(observations), failure, sum(play.seconds for play in plays), plays[-1].native, steps)

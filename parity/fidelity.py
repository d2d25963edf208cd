"""Driver fidelity: a scenario through both doors of the same upstream must be one observation.

Every comparison rests on the oracle's driver, which steps upstream's scheduler by hand. Here the same scenario also goes
through upstream's own engine core (oracle/driver/core.py), in a second process. Where the two differ, the driver is
wrong, and not upstream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from oracle.pins import Pin
from oracle.verify import Measured
from parity.errors import UsageError
from parity.finding import Difference
from parity.oracle_side import Way, greet, start_oracle
from parity.outcomes import difference_of
from parity.play import play_case
from parity.report.progress import RunProgress
from parity.scenario import Case, Level
from parity.side import Side
from parity.suite import select


class Compared(msgspec.Struct, frozen=True):
    """One scenario through both doors: the first difference (`oracle` is the scheduler's door, `subject` the core's),
    or how a door failed; both null where they are the same.
    """

    id: str
    level: Level
    difference: Difference | None
    failure: str | None

    @property
    def same(self) -> bool:
        return self.difference is None and self.failure is None


class Doors(msgspec.Struct, frozen=True):
    """Both doors, ready to play."""

    scheduler: Side[Any]
    core: Side[Any]

    def compare(self, case: Case) -> Compared:
        """Plays the case, of level plan or schedule, through both at once."""
        left, right = play_case(case, self.scheduler, self.core, times=1)
        failure = left.failure or right.failure
        difference = None if failure else difference_of(left.observations[0], right.observations[0])
        return Compared(case.id, case.scenario.level, difference, failure)


@contextmanager
def both_doors(root: Path, pin: Pin, measured: Measured, progress: RunProgress) -> Iterator[Doors]:
    """Two drivers, started at once and ended with the block. Raises OracleError, InconclusiveError."""
    with ExitStack() as stack:
        scheduler = stack.enter_context(closing(start_oracle(root, pin)))
        core = stack.enter_context(closing(start_oracle(root, pin, way=Way("core"))))
        with progress.starting(f"starting vLLM {measured.version} twice"):
            for driver in (scheduler, core):
                greet(driver, measured)
        yield Doors(scheduler, core)


def compare_all(
    root: Path, pin: Pin, measured: Measured, cases: Sequence[Case], progress: RunProgress
) -> list[Compared]:
    """The cases through both doors, in their order. Raises OracleError, InconclusiveError."""
    compared = []
    with both_doors(root, pin, measured, progress) as doors, progress.playing(len(cases), 0):
        for case in cases:
            compared.append(doors.compare(case))
            progress.played()
    return compared


def choose(suite: Sequence[Case], ids: Sequence[str], family: str | None) -> list[Case]:
    """The cases of the levels that a driver plays. Raises UsageError for a selection that has none."""
    chosen = [case for case in select(suite, ids, family) if case.scenario.level != "serve"]
    if not chosen:
        raise UsageError(
            "what was chosen is of level serve, which is played by servers and not by the driver",
            hint="choose scenarios of the levels plan and schedule",
        )
    return chosen

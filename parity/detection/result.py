"""What became of each mutant, and the shares that come of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from parity.detection.targets import BY_FILE, Group

By = Literal["check", "tests"]
AIMS: dict[Group, By] = {"engine": "check", "judge": "tests"}  # by what a group's mutants must be noticed
REACH = 0.97


class Kill(msgspec.Struct, frozen=True):
    """Whether a mutant was noticed, and by what: a scenario or record with its verdict, a test, a crash, a hang."""

    killed: bool
    by: str | None


class Result(msgspec.Struct, frozen=True):
    """One mutant, planted. A kill is null where that was not asked for."""

    id: str
    file: str
    line: int
    was: str
    becomes: str
    check: Kill | None
    tests: Kill | None
    equivalent: str | None = None  # the reason that is on file

    @property
    def group(self) -> Group:
        return BY_FILE[self.file].group

    def kill(self, by: By) -> Kill | None:
        return self.check if by == "check" else self.tests

    @property
    def survives(self) -> bool:
        """Whether what its group is measured by was asked, and did not notice it."""
        kill = self.kill(AIMS[self.group])
        return kill is not None and not kill.killed


class Share(msgspec.Struct, frozen=True):
    """Of the mutants of a group that are not equivalent, how many one way of noticing noticed."""

    group: Group
    by: By
    killed: int
    of: int

    @property
    def rate(self) -> float:
        return self.killed / self.of if self.of else 1.0

    @property
    def aimed(self) -> bool:
        return AIMS[self.group] == self.by

    @property
    def reached(self) -> bool:
        return not self.aimed or self.rate >= REACH


def shares(results: Sequence[Result]) -> list[Share]:
    """Every share that was measured: engine and judge, by check and by tests."""
    found: list[Share] = []
    groups: tuple[Group, ...] = ("engine", "judge")
    ways: tuple[By, ...] = ("check", "tests")
    for group in groups:
        for by in ways:
            kills = [
                kill
                for result in results
                if result.group == group
                and result.equivalent is None
                and (kill := result.kill(by)) is not None
            ]
            if kills:
                found.append(Share(group, by, sum(kill.killed for kill in kills), len(kills)))
    return found


def survivors(results: Sequence[Result]) -> list[Result]:
    """The mutants that nobody says are equivalent and that what they are measured by did not notice."""
    return [result for result in results if result.survives and result.equivalent is None]


def noticed_equivalents(results: Sequence[Result]) -> list[Result]:
    """The mutants on file as equivalent that were noticed after all."""
    found = []
    for result in results:
        kill = result.kill(AIMS[result.group])
        if result.equivalent is not None and kill is not None and kill.killed:
            found.append(result)
    return found

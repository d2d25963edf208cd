"""The sides of a hunt and of the verbs after it: where a process failed they are started anew before the next play.

A run does without: there a process that fails again and again is not asked any more, and each scenario left is VOID. Here
every play is evidence of its own, and one that did not take place would be taken for one in which the side failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from parity.fuzz.examine import Examined, Examiner, Pair, is_of_a_process
from parity.scenario import Case
from parity.sides import Sides
from parity.subjects.players import Asked


class FreshSides:
    """Sides from `make` that are ready for `asked` and for their like; `close` ends every process.

    Raises what starting them raises: OracleError, InconclusiveError, UsageError.
    """

    def __init__(self, make: Callable[[], Sides], asked: Sequence[Asked]) -> None:
        self._make = make
        self._asked = asked
        self._has_failed = False
        self._sides = self._started()

    def examiner(self, policies: Mapping[str, str]) -> Examiner:
        """Plays on them under these choices of the engine."""
        return Examiner(lambda case: self._pair(case, policies), mirrors=not policies, heard=self._hear)

    def close(self) -> None:
        self._sides.close()

    def _pair(self, case: Case, policies: Mapping[str, str]) -> Pair:
        if self._has_failed:
            self._sides.close()
            self._sides = self._started()
            self._has_failed = False
        return self._sides.pair(case, policies)

    def _started(self) -> Sides:
        sides = self._make()
        try:
            sides.prepare(self._asked)
        except BaseException:
            sides.close()
            raise
        return sides

    def _hear(self, examined: Examined) -> None:
        self._has_failed |= is_of_a_process(examined.judged)

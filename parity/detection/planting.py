"""Plants the chosen mutants one after another and asks who notices: the check first, then the tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from parity.detection.children import Answer, Task, run_all
from parity.detection.killing import by_check, by_judge, by_tests
from parity.detection.mutation import Mutant
from parity.detection.replay import Check, observe_all, plays_of
from parity.detection.result import Kill
from parity.detection.targets import BY_FILE
from parity.detection.upstream import Nursery
from parity.errors import HarnessError, InconclusiveError
from parity.finding import Plays

Say = Callable[[str], None]
FACTOR = 20  # times the clean time until a mutant counts as one that hangs
LEAST, MOST = 20.0, 600.0  # seconds, and seconds more than the clean time
QUIET = 5.0  # seconds between two lines of progress


class Planting:
    """What every mutant is asked about: the oracle's observations of the suite, as plain JSON; `jobs` children at once."""

    def __init__(self, root: Path, observations: Mapping[str, Any], jobs: int, say: Say) -> None:
        self._root = root
        self._observations = observations
        self._jobs = jobs
        self._say = say

    def check(self, mutants: Sequence[Mutant], kills: dict[str, Kill]) -> None:
        """Which of them a check of the levels plan and schedule notices; `kills` gets each answer as it comes."""
        check = Check.of(self._root)
        oracle = plays_of(check.cases, self._observations)
        bound = _bound(self._clean_check(check, oracle))
        engine = observe_all(check)
        tasks = []
        drivers = []
        for mutant in mutants:
            side = BY_FILE[mutant.file].side
            if side == "oracle":
                drivers.append(mutant)
            elif side == "subject":
                tasks.append(Task(mutant.id, by_check(check, oracle, [mutant]), bound))
            else:
                work = by_judge(self._root, [mutant], self._observations, engine)
                tasks.append(Task(mutant.id, work, bound))
        self._gather("check", tasks, _checked, kills)
        if drivers:
            self._gather_upstream(drivers, engine, bound, kills)

    def tests(self, mutants: Sequence[Mutant], kills: dict[str, Kill]) -> None:
        """Which of them a test notices, as above. Raises InconclusiveError where tests fail with nothing planted."""
        seconds = self._clean_tests({file for mutant in mutants for file in BY_FILE[mutant.file].tests})
        tasks = []
        for mutant in mutants:
            files = BY_FILE[mutant.file].tests
            work = by_tests(self._root, [mutant], files)
            tasks.append(Task(mutant.id, work, _bound(sum(seconds[file] for file in files))))
        self._gather("tests", tasks, _tested, kills)

    def _clean_check(self, check: Check, oracle: Mapping[str, Plays]) -> float:
        """Seconds of a check with nothing planted. Raises InconclusiveError where it is not green."""
        work = by_check(check, oracle, [])
        (answer,) = run_all([Task("", work, MOST)], 1)
        if answer.failure is not None:
            raise HarnessError(f"a check with nothing planted came to no end: {answer.failure}")
        code, where, verdict = answer.value
        if code != 0:
            raise InconclusiveError(
                f"a check with nothing planted is not green: {where} is {verdict}",
                hint="run `make parity-quick`",
            )
        return answer.seconds

    def _clean_tests(self, files: Iterable[str]) -> dict[str, float]:
        tasks = [Task(file, by_tests(self._root, [], [file]), MOST) for file in sorted(files)]
        seconds: dict[str, float] = {}
        for answer in self._told("clean tests", run_all(tasks, self._jobs), len(tasks)):
            if answer.failure is not None or answer.value[0] != 0:
                reason = answer.failure or answer.value[1]
                raise InconclusiveError(
                    f"{answer.key} fails with nothing planted: {reason}", hint=f"run `pytest {answer.key}`"
                )
            seconds[answer.key] = answer.seconds
        return seconds

    def _gather(
        self,
        what: str,
        tasks: Sequence[Task[str]],
        read: Callable[[Answer[str]], Kill],
        kills: dict[str, Kill],
    ) -> None:
        for answer in self._told(what, run_all(tasks, self._jobs), len(tasks)):
            kills[answer.key] = read(answer)

    def _gather_upstream(
        self, mutants: Sequence[Mutant], engine: Mapping[str, Any], bound: float, kills: dict[str, Kill]
    ) -> None:
        """The oracle's driver with each of them, live, against what the engine does."""
        self._say("starting vLLM for the driver's mutants")
        with Nursery(self._root) as nursery:
            began = time.monotonic()
            ended, observed = nursery.play(None, MOST)
            clean = time.monotonic() - began
            if ended != "0" or len(observed) != len(self._observations):
                raise InconclusiveError(
                    f"the untouched driver ended with {ended} after {len(observed)} scenarios"
                )
            for number, mutant in enumerate(mutants, start=1):
                ended, observed = nursery.play(mutant.id, _bound(clean))
                if ended != "0":
                    kills[mutant.id] = Kill(True, "hang" if ended == "hang" else "crash")
                else:
                    work = by_judge(self._root, [], observed, engine)
                    (answer,) = run_all([Task(mutant.id, work, bound)], 1)
                    kills[mutant.id] = _checked(answer)
                if number % 10 == 0 or number == len(mutants):
                    self._say(f"check of the driver: {number} of {len(mutants)}")

    def _told(self, what: str, answers: Iterator[Answer[str]], total: int) -> Iterator[Answer[str]]:
        """The answers, with a line of progress now and then."""
        last = time.monotonic()
        for number, answer in enumerate(answers, start=1):
            now = time.monotonic()
            if now - last >= QUIET or number == total:
                last = now
                self._say(f"{what}: {number} of {total}")
            yield answer


def _bound(clean: float) -> float:
    return min(max(LEAST, FACTOR * clean), clean + MOST)


def _checked(answer: Answer[str]) -> Kill:
    if answer.failure is not None:
        return Kill(True, answer.failure)
    code, where, verdict = answer.value
    return Kill(code != 0, None if code == 0 else f"{where}: {verdict}")


def _tested(answer: Answer[str]) -> Kill:
    """Pytest's 0 is the only code that says that nothing was noticed."""
    if answer.failure is not None:
        return Kill(True, answer.failure)
    code, where = answer.value
    return Kill(code != 0, where or (None if code == 0 else f"pytest ended with {code}"))

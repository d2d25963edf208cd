"""The step ratio is taken round by round, and a play that fails leaves no ratio."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from parity.bench.figures import Spread
from parity.bench.steps import measure
from parity.root import CODE_ROOT
from parity.scenario import Case, Scenario
from parity.side import Play
from parity.suite import load_suite


class Fake:
    """Takes the given seconds, one a play."""

    def __init__(self, name: str, seconds: Sequence[float], failure: str | None = None) -> None:
        self.name = name
        self._seconds: Iterator[float] = iter(seconds)
        self._failure = failure

    def hello(self) -> dict[str, Any]:
        return {}

    def begin(self, _scenario: Scenario) -> None:
        """Nothing to prepare."""

    def finish(self) -> Play:
        return Play(None, self._failure, next(self._seconds))

    def close(self) -> None:
        """Nothing to end."""


@pytest.fixture
def cases() -> list[Case]:
    return load_suite(CODE_ROOT)[:2]


def test_the_ratio_of_each_round(cases: list[Case]) -> None:
    oracle = Fake("oracle", [2.0, 2.0, 1.0, 1.0, 4.0, 4.0])
    engine = Fake("engine", [0.5, 0.5, 0.5, 0.5, 0.5, 0.5])

    figure = measure(cases, oracle, engine, 3)

    assert figure.found == Spread(median=0.25, low=0.125, high=0.5)
    assert figure.met is True
    assert figure.note == "1.000 s, 4.000 s"


def test_a_play_that_fails_leaves_no_ratio(cases: list[Case]) -> None:
    figure = measure(cases, Fake("oracle", [1.0] * 4), Fake("engine", [1.0] * 4, "it raised"), 2)

    assert figure.found is None
    assert figure.note == f"engine failed in {cases[0].id}: it raised"

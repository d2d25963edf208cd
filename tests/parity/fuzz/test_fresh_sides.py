"""The sides are asked for before each play, so that none is one that was closed for another, or is not there any more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parity.engine_side import EngineSide
from parity.fuzz.document import case_from
from parity.fuzz.fresh_sides import FreshSides
from parity.scenario import Case
from parity.side import Play
from tests.parity.fuzz.files import STUCK
from tests.parity.fuzz.planted import Untouched


class Fails(EngineSide):
    def finish(self) -> Play:
        return Play(None, "it failed", 0.0)


class Given:
    """Sides that note what they are asked, and that they were closed; `oracle` and `subject` are what they hand out."""

    def __init__(self, asked: list[str], oracle: Any, subject: Any) -> None:
        self._asked = asked
        self._pair = oracle, subject

    def prepare(self, plays: Any) -> None:
        self._asked.append(f"prepare {len(plays)}")

    def pair(self, _case: Case, policies: Mapping[str, str]) -> Any:
        self._asked.append(f"pair {dict(policies)}")
        return self._pair

    def close(self) -> None:
        self._asked.append("close")


def asked_of(oracle: type[EngineSide], subject: type[EngineSide], *policies: dict[str, str]) -> list[str]:
    """What is asked of the sides while one scenario is played under each of these choices in turn."""
    asked: list[str] = []
    make: Any = lambda: Given(asked, oracle(), subject())  # noqa: E731
    fresh = FreshSides(make, [(case_from(STUCK), {})])
    examiners = [fresh.examiner(choice) for choice in policies]
    for examiner in examiners:
        examiner.look(STUCK)
    return asked


def test_each_play_asks_for_the_sides_of_its_choices() -> None:
    """At level serve one choice's server is closed for another's, and a closed one plays nothing."""
    reserves = {"null-block-capacity": "reserve"}

    assert asked_of(Untouched, EngineSide, reserves, {}, reserves) == [
        "prepare 1",
        f"pair {reserves}",
        "pair {}",
        f"pair {reserves}",
    ]


def test_after_an_oracle_that_failed_both_are_started_anew() -> None:
    class Gone(Fails):
        name = "oracle"  # type: ignore[assignment]

    assert asked_of(Gone, EngineSide, {}, {}) == [
        "prepare 1",
        "pair {}",
        "close",
        "prepare 1",
        "pair {}",
    ]


def test_an_engine_in_this_process_needs_no_start() -> None:
    assert asked_of(Untouched, Fails, {}, {}) == ["prepare 1", "pair {}", "pair {}"]

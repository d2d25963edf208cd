"""What holds of every document that is drawn, and that a seed alone decides which they are."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.driver import observe
from parity.defaults import config_defaults
from parity.fuzz.document import Document, case_from
from parity.fuzz.drawing.hand import ROLL, Hand, near
from parity.fuzz.search import Search
from parity.fuzz.strategies import documents
from parity.scenario import Level, Scenario

ROOT = Path(__file__).resolve().parents[3]
LEVELS: tuple[Level, ...] = ("plan", "schedule")
MOST_TOKENS = 10 * (400 + 36)  # ten requests of the longest prompt and output
UNTAUGHT = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


def searched(level: Level, seed: str, count: int) -> list[Document]:
    search = Search(level, seed)
    return [search.draw() for _ in range(count)]


def scenario_of(document: Document) -> Scenario:
    scenario = case_from(document).scenario
    assert isinstance(scenario, Scenario)
    return scenario


@UNTAUGHT
@given(st.sampled_from(LEVELS).flatmap(documents))
def test_hypothesis_draws_what_a_scenario_file_may_hold(document: Document) -> None:
    assert scenario_of(document).level == document["level"]


@pytest.mark.parametrize("level", LEVELS)
def test_a_search_draws_what_a_scenario_file_may_hold(level: Level) -> None:
    for document in searched(level, "any", 500):
        assert scenario_of(document).level == level


@pytest.mark.parametrize("level", LEVELS)
def test_only_keys_that_differ_from_their_defaults_are_written(level: Level) -> None:
    defaults = config_defaults()

    for document in searched(level, "written", 300):
        for key, value in document["config"].items():
            assert key == "model" or value != defaults[key]


def test_a_timeline_is_small() -> None:
    for document in searched("schedule", "small", 500):
        timeline = scenario_of(document).timeline
        assert timeline is not None
        assert 1 <= len(timeline.requests) <= 10
        assert sum(len(request.prompt) + len(request.output) for request in timeline.requests) <= MOST_TOKENS


def test_a_timeline_has_about_30_steps_and_one_in_ten_at_most_is_refused() -> None:
    played = [
        observe(msgspec.to_builtins(scenario_of(document)))
        for document in searched("schedule", "length", 400)
    ]

    steps = [len(observation["steps"]) for observation in played]
    assert 20 <= statistics.median(steps) <= 40
    assert max(steps) < 500
    assert sum(observation["end"]["kind"] == "refused" for observation in played) <= 40


DRAW_50 = """
import json, sys
from hypothesis import HealthCheck, Phase, given, seed, settings
from parity.fuzz.behaviours import pairs, reached, states
from parity.fuzz.document import case_from
from parity.fuzz.search import Search
from parity.fuzz.strategies import documents
from parity.observation import decode
from engine.driver import observe
import msgspec

drawn = []
for level in ("plan", "schedule"):
    @seed(7)
    @settings(max_examples=50, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(documents(level))
    def draw(document):
        drawn.append(document)
    draw()
    search = Search(level, "7/0")
    for _ in range(50):
        document = search.draw()
        scenario = case_from(document).scenario
        observation = decode(level, observe(msgspec.to_builtins(scenario)))
        search.keep(sorted(pairs(reached(scenario, observation))))
        drawn += [document, sorted(states(observation))]
json.dump(drawn, sys.stdout)
"""
MANY_CONSTANTS = "\n".join(f"C{number} = {number}" for number in range(2, 1000))


def test_a_seed_gives_the_same_documents_in_every_process_whatever_it_imported(tmp_path: Path) -> None:
    (tmp_path / "many_constants.py").write_text(MANY_CONSTANTS)

    plain = _run(DRAW_50, tmp_path, PYTHONHASHSEED="1")
    other = _run("import many_constants, parity.cli.main\n" + DRAW_50, tmp_path, PYTHONHASHSEED="2")

    assert len(msgspec.json.decode(plain)) >= 2 * (50 + 2 * 50)
    assert plain == other


def _run(code: str, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout


def test_other_seeds_give_other_documents() -> None:
    assert searched("schedule", "7/0", 5) != searched("schedule", "7/1", 5)


def test_a_search_says_what_is_new_to_it() -> None:
    search = Search("plan", "new")
    search.draw()

    assert search.keep(["a", "b"])
    assert not search.keep(["b", "a"])
    assert search.keep(["b", "c"])


def test_a_search_varies_what_it_kept() -> None:
    search = Search("schedule", "vary")
    kept = [search.draw() for _ in range(3)][-1]
    search.keep(["something"])

    alike = sum(_shared(kept, search.draw()) for _ in range(400))
    apart = sum(_shared(kept, document) for document in searched("schedule", "apart", 400))

    assert alike > 40 > 10 > apart


def _shared(one: Document, other: Document) -> bool:
    """Whether a request of one, whatever its place, is in the other as well, in the same pool."""

    def keyed(document: Document) -> set[str]:
        pool = [document["config"].get(key) for key in ("model", "block_size", "num_blocks")]
        return {repr((pool, request)) for request in document["requests"]}

    return bool(keyed(one) & keyed(other))


class Fixed:
    """A source that makes the same choice as far as it may, and notes how many there were to choose from."""

    def __init__(self, choice: int) -> None:
        self._choice = choice
        self.counts: list[int] = []

    def number(self, count: int) -> int:
        self.counts.append(count)
        return min(self._choice, count - 1)

    def rolls(self, count: int) -> tuple[int, ...]:
        return tuple(self.number(ROLL) for _ in range(count))


@pytest.mark.parametrize(("choice", "expected"), [(0, 0), (99, 6399)])
def test_a_large_number_is_put_together_from_choices_of_at_most_a_hundred(choice: int, expected: int) -> None:
    source = Fixed(choice)

    assert Hand(source).below(6400) == expected
    assert max(source.counts) <= 100


@pytest.mark.parametrize(
    ("roll", "low", "high", "expected"),
    [
        (0, 1, 99, 16),
        (1, 1, 99, 15),
        (2, 1, 99, 17),
        (3, 1, 99, 40),
        (6, 1, 99, 16),
        (5, 1, 40, 40),
        (0, 20, 10, 20),
    ],
)
def test_near_is_an_anchor_or_beside_it_within_its_bounds(
    roll: int, low: int, high: int, expected: int
) -> None:
    assert near(roll, (16, 40), low, high) == expected


@pytest.mark.parametrize("level", LEVELS)
def test_the_first_choice_of_everything_is_a_small_document(level: Level) -> None:
    from parity.fuzz.drawing import draw_document

    document: dict[str, Any] = draw_document(level, Fixed(0))

    assert document["config"]["model"] == "tiny-opt"
    assert len(document.get("requests", ["one"])) == 1
    assert not {"aborts", "resets", "waive", "max_steps"} & document.keys()

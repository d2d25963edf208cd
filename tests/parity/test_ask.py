"""Which scenarios a run plays, and how often."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from parity.ask import FULL_OUTCOMES, Ask, choose
from parity.errors import UsageError
from parity.scenario import Case

ROOT = Path()
LONG = "numerics/smollm2-at-once-long"
STUCK = "shutdown/sigterm-while-stuck"
IDLE = "shutdown/sigterm-idle"
WEDGE = "serving/null-block-wedge"
PLAN = "auto-fit/null-block"


def ids(cases: list[Case]) -> set[str]:
    return {case.id for case in cases}


def of(suite: list[Case], name: str) -> Case:
    return next(case for case in suite if case.id == name)


def test_the_usual_depth_leaves_out_what_is_marked_full(suite: list[Case]) -> None:
    usual, full = choose(Ask(ROOT), suite), choose(Ask(ROOT, depth="full"), suite)

    assert ids(full) == ids(suite)
    assert ids(full) - ids(usual) == {case.id for case in suite if case.full}
    assert LONG in ids(full) - ids(usual)


def test_quick_leaves_out_every_server(suite: list[Case]) -> None:
    quick = choose(Ask(ROOT, depth="quick"), suite)

    assert {case.scenario.level for case in quick} == {"plan", "schedule"}
    assert len(quick) == sum(case.scenario.level != "serve" for case in suite)


def test_a_full_scenario_is_played_by_its_own_id_and_not_by_its_family(suite: list[Case]) -> None:
    assert ids(choose(Ask(ROOT, ids=(LONG,)), suite)) == {LONG}
    assert LONG not in ids(choose(Ask(ROOT, ids=("numerics",)), suite))


def test_a_choice_that_only_a_full_run_plays_says_so(suite: list[Case]) -> None:
    sweep = [msgspec.structs.replace(of(suite, WEDGE), full=True)]

    with pytest.raises(UsageError, match="full run only"):
        choose(Ask(ROOT, ids=("serving",)), sweep)


def test_outcomes_asked_of_scenarios_that_have_none_is_a_mistake(suite: list[Case]) -> None:
    with pytest.raises(UsageError, match="--outcomes"):
        choose(Ask(ROOT, ids=(IDLE,), outcomes=2), suite)

    assert ids(choose(Ask(ROOT, ids=(IDLE, STUCK), outcomes=2), suite)) == {IDLE, STUCK}


@pytest.mark.parametrize(
    ("asked", "name", "times"),
    [
        (Ask(ROOT, repeat=2), PLAN, 2),
        (Ask(ROOT, repeat=2), WEDGE, 1),
        (Ask(ROOT, repeat=2, serve_repeat=3), WEDGE, 3),
        (Ask(ROOT, serve_repeat=3), IDLE, 1),
        (Ask(ROOT, repeat=2), STUCK, 2),
        (Ask(ROOT, outcomes=20), STUCK, 20),
        (Ask(ROOT, outcomes=20), WEDGE, 1),
        (Ask(ROOT, depth="full"), STUCK, 2 * FULL_OUTCOMES),
    ],
)
def test_how_often_a_side_plays(suite: list[Case], asked: Ask, name: str, times: int) -> None:
    assert asked.times(of(suite, name)) == times


@pytest.mark.parametrize(
    ("asked", "is_partial", "is_chosen"),
    [
        (Ask(ROOT), False, False),
        (Ask(ROOT, depth="quick"), True, False),
        (Ask(ROOT, depth="full"), False, False),
        (Ask(ROOT, family="serving"), True, True),
        (Ask(ROOT, ids=(WEDGE,)), True, True),
    ],
)
def test_what_a_partial_run_is(asked: Ask, is_partial: bool, is_chosen: bool) -> None:
    assert (asked.partial, asked.chosen) == (is_partial, is_chosen)

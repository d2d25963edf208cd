"""The first difference between two observations, with its path and its kind."""

from __future__ import annotations

import pytest

from parity.diff import first_difference, render, split
from parity.observation import plain
from tests.records.miniature import FIRST, LAST, empty_step, plan, schedule, step


def test_equal_observations_do_not_differ() -> None:
    one, other = schedule(FIRST, LAST), schedule(FIRST, LAST)

    assert first_difference(plain(one), plain(other)) is None


@pytest.mark.parametrize(
    ("oracle", "subject", "path", "kind"),
    [
        ({"a": 3}, {"a": 4}, "a", "greater"),
        ({"a": 3}, {"a": 2}, "a", "less"),
        ({"a": 1.5}, {"a": 2}, "a", "greater"),
        ({"a": "x"}, {"a": "y"}, "a", "differs"),
        ({"a": True}, {"a": False}, "a", "differs"),
        ({"a": 1}, {"a": True}, "a", "type"),
        ({"a": 1}, {"a": "1"}, "a", "type"),
        ({"a": [1]}, {"a": {}}, "a", "type"),
        ({"a": 1, "b": 2}, {"a": 1}, "b", "missing"),
        ({"a": 1}, {"a": 1, "b": 2}, "b", "extra"),
        ({"a": 48}, {"a": None}, "a", "missing"),
        ({"a": None}, {"a": 48}, "a", "extra"),
        ({"a": [1, 2]}, {"a": [1]}, "a", "shorter"),
        ({"a": [1]}, {"a": [1, 2]}, "a", "longer"),
        ({"a": [[1, 2]]}, {"a": [[1, 3]]}, "a[0][1]", "greater"),
    ],
)
def test_each_kind_of_difference(oracle: object, subject: object, path: str, kind: str) -> None:
    found = first_difference(oracle, subject)

    assert found is not None
    assert (found.path, found.kind) == (path, kind)


def test_null_on_both_sides_is_no_difference() -> None:
    assert first_difference({"a": None}, {"a": None}) is None


def test_values_are_those_at_the_path() -> None:
    found = first_difference(plain(plan(max_model_len=64)), plain(plan(max_model_len=48)))

    assert found is not None
    assert (found.path, found.oracle, found.subject, found.kind) == ("max_model_len", 64, 48, "less")


def test_the_plan_comes_before_the_steps_and_the_steps_before_the_end() -> None:
    oracle = schedule(FIRST, LAST)
    subject = schedule(FIRST, step(free=7), end="limit")

    found = first_difference(plain(oracle), plain(subject))

    assert found is not None
    assert found.path == "steps[1].free"


def test_within_a_step_the_order_is_that_of_happening() -> None:
    oracle = schedule(step())
    subject = schedule(step(scheduled=[("a", 2)], free=7, free_after=7))

    found = first_difference(plain(oracle), plain(subject))

    assert found is not None
    assert (found.path, found.oracle, found.subject) == ("steps[0].scheduled[0][1]", 1, 2)


def test_elements_come_before_the_length_of_their_list() -> None:
    found = first_difference({"a": [1, 2, 3]}, {"a": [1, 9]})

    assert found is not None
    assert (found.path, found.kind) == ("a[1]", "greater")


def test_a_list_stands_as_it_is_and_a_list_of_steps_as_its_length() -> None:
    names = first_difference({"a": []}, {"a": ["r1"]})
    steps = first_difference(plain(schedule(FIRST)), plain(schedule(FIRST, empty_step())))

    assert names is not None
    assert (names.oracle, names.subject) == ([], ["r1"])
    assert steps is not None
    assert (steps.path, steps.oracle, steps.subject, steps.kind) == ("steps", 1, 2, "longer")


def test_a_refused_plan_differs_from_one_that_came_out_in_its_status() -> None:
    refused = {"status": "error", "warnings": [], "kind": "kv-cache-too-small", "estimated_max_model_len": 48}

    found = first_difference(plain(plan()), refused)

    assert found is not None
    assert (found.path, found.oracle, found.subject) == ("status", "ok", "error")


@pytest.mark.parametrize(
    "path", ["end.kind", "steps[41].scheduled[0][1]", "max_model_len", "plan.concurrency[1]"]
)
def test_a_path_can_be_split_and_rendered_again(path: str) -> None:
    assert render(split(path)) == path


def test_values_are_plain_json_and_so_survive_a_file() -> None:
    found = first_difference({"a": []}, {"a": [("r1", [1, (2, 3)])]})

    assert found is not None
    assert found.subject == [["r1", [1, [2, 3]]]]

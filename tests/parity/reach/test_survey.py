"""Lines and jumps that coverage.py tells become functions and branches, by name and by text."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity.reach.survey import File
from tests.parity.reach.miniature import MOVED, POOL, measured


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> File:
    return measured(tmp_path_factory.mktemp("pool"), POOL, "pool.Pool().take(2); pool.outer()")


def test_a_function_is_entered_where_a_line_of_its_own_body_is_executed(pool: File) -> None:
    entered = {function.symbol: function.entered for function in pool.functions}

    assert entered == {
        "pool.py::Pool.take": True,
        "pool.py::Pool.never": False,
        "pool.py::outer": True,
        "pool.py::outer.inner": False,
    }


def test_a_condition_that_never_went_a_way_is_missed_and_what_stands_there_is_behind(pool: File) -> None:
    states = {branch.key.partition(" | ")[2]: branch.state for branch in pool.branches}

    assert states == {
        "if count > 3 -> yes": "missed",
        "if count > 3 -> no": "reached",
        "if why -> yes": "behind",
        "if why -> no": "behind",
        "for index in range(count) -> yes": "reached",
        "for index in range(count) -> no": "reached",
        "if index == 1 and why is None -> yes": "reached",
        "if index == 1 and why is None -> no": "reached",
        "except ValueError": "reached",
        "except TypeError": "missed",
    }


def test_lines_and_jumps_are_those_of_bodies(pool: File) -> None:
    missing = {POOL.splitlines()[line - 1].strip() for line in pool.missing}

    assert missing == {
        "if why:",
        "return None",
        "except TypeError:",
        "return 1",
        "return 2 if self else 3",
        "return 4",
    }
    assert pool.lines[1] - pool.lines[0] == len(missing)
    assert pool.jumps == (5, 8)  # four conditions of two ways each; one way missed, two behind it


def test_an_import_alone_reaches_nothing(tmp_path: Path) -> None:
    file = measured(tmp_path, POOL, "pass")

    assert file.lines[0] == file.jumps[0] == 0
    assert not any(function.entered for function in file.functions)
    assert file.branches == ()


def test_keys_survive_moved_lines_comments_and_other_line_breaks(tmp_path: Path, pool: File) -> None:
    moved = measured(tmp_path, MOVED, "pool.Pool().take(2); pool.outer()")

    assert moved.functions == pool.functions
    assert moved.branches == pool.branches
    assert moved.missing != pool.missing

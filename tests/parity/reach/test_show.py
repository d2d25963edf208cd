"""The number of branches that are not reached is the length of the list that follows it."""

from __future__ import annotations

import re

from parity.reach.decisions import judge, read_decisions
from parity.reach.show import verdict_lines
from parity.reach.survey import Branch, File, State

TWICE = "pool.py::take | if full -> yes"
BRANCHES: list[tuple[str, State]] = [
    (TWICE, "missed"),
    (TWICE, "reached"),
    (TWICE, "missed"),
    ("pool.py::take | if cached -> yes", "missed"),
    ("pool.py::take | if cached -> no", "reached"),
    ("pool.py::take | if cached -> no", "behind"),
    ("pool.py::take | if old -> no", "behind"),
]


def test_a_branch_that_stands_in_its_function_twice_counts_once() -> None:
    files = [File("pool.py", (1, 1), (1, 1), (), tuple(Branch(*branch) for branch in BRANCHES), ())]
    decisions = read_decisions(f'[why]\nbecause = "so"\nbranches = ["{TWICE}"]\n'.encode())

    lines = verdict_lines(files, judge(files, decisions), decisions)

    assert lines[0] == "branches of the functions that are entered: 1 reached, 2 not, 1 behind those"
    to_do = [line for line in lines if line.startswith("to do: never reached: ")]
    out = sum(int(number) for line in lines for number in re.findall(r"(\d+) branch", line))
    assert len(to_do) + out == 2

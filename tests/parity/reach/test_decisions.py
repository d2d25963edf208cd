"""What is not reached is to do, unless the file says why it is out of scope; what the file says in vain is stale."""

from __future__ import annotations

import tomllib

import pytest

from parity.errors import UsageError
from parity.reach.decisions import FILE, Judged, judge, read_decisions
from parity.reach.survey import Branch, File, Function, State
from parity.root import CODE_ROOT

GUARD = "pool.py::Pool.take | if count > free -> yes"
HIT = "pool.py::Pool.take | if cached -> yes"
FILES = [
    File(
        path="pool.py",
        lines=(2, 9),
        jumps=(1, 4),
        functions=(
            Function("pool.py::Pool.take", True),
            Function("pool.py::Window.__init__", False),
            Function("pool.py::Window.slide", False),
        ),
        branches=(Branch(GUARD, "missed"), Branch(HIT, "reached")),
        missing=(),
    )
]


def decided(functions: list[str], branches: list[str], files: list[File] = FILES) -> Judged:
    text = f'[why]\nbecause = "it is so"\nfunctions = {functions}\nbranches = {branches}\n'
    return judge(files, read_decisions(text.encode()))


def with_branches(*states: tuple[str, State]) -> list[File]:
    branches = tuple(Branch(key, state) for key, state in states)
    return [File("pool.py", (1, 1), (1, 1), (), branches, ())]


def test_what_is_not_in_the_file_is_to_do() -> None:
    judged = decided([], [])

    assert judged.functions == ("pool.py::Window.__init__", "pool.py::Window.slide")
    assert judged.branches == (GUARD,)
    assert judged.stale == ()
    assert not judged.settled


def test_a_class_and_a_condition_are_put_out_of_scope() -> None:
    judged = decided(["pool.py::Window.*"], [GUARD])

    assert judged.settled
    assert judged.functions_out == {"pool.py::Window.__init__": "why", "pool.py::Window.slide": "why"}
    assert judged.branches_out == {GUARD: "why"}


@pytest.mark.parametrize(
    ("functions", "branches", "why"),
    [
        (["pool.py::Pool.take"], [], "pool.py::Pool.take is entered"),
        (["pool.py::*"], [], "pool.py::Pool.take is entered"),
        (["pool.py::Ring.*"], [], "no such function"),
        ([], [HIT], f"{HIT} is reached"),
        ([], ["pool.py::Pool.take | *"], f"{HIT} is reached"),
        ([], ["pool.py::Pool.take | if count >= free -> yes"], "no such branch that is missed"),
        ([], ["pool.py::Pool.take | if count > free -> no"], "no such branch that is missed"),
        (
            ["pool.py::Window.*", "*.slide"],
            [],
            "pool.py::Window.slide is decided by another entry (why)",
        ),
    ],
)
def test_an_entry_that_is_of_no_use_is_stale(functions: list[str], branches: list[str], why: str) -> None:
    judged = decided(functions, branches)

    assert [stale.why for stale in judged.stale] == [why]
    assert judged.stale[0].pattern == [*functions, *branches][-1]
    assert not judged.settled


def test_only_a_star_is_no_plain_text() -> None:
    key = "pool.py::Pool.take | if table[0] in (1, 2) and what? -> yes"

    assert decided([], [key], with_branches((key, "missed"))).settled
    assert decided([], ["*table[0] in (*"], with_branches((key, "missed"))).settled
    assert not decided([], [key.replace("table[0]", "table0")], with_branches((key, "missed"))).settled


def test_a_condition_that_stands_twice_is_missed_if_either_is() -> None:
    files = with_branches((HIT, "reached"), (HIT, "missed"))

    assert decided([], [], files).branches == (HIT,)
    assert decided([], [HIT], files).settled


def test_what_is_behind_another_branch_needs_no_entry_and_takes_none() -> None:
    files = with_branches((GUARD, "missed"), (HIT, "behind"))

    assert decided([], [GUARD], files).settled
    assert [stale.pattern for stale in decided([], [GUARD, HIT], files).stale] == [HIT]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[why", "Expected"),
        ('[why]\nbecause = " "\n', "why has no reason"),
        ('[why]\nfunctions = ["a"]\n', "because"),
        ('[why]\nbecause = "b"\nclasses = ["a"]\n', "classes"),
        ('[why]\nbecause = "b"\nfunctions = ["a", "a"]\n', "'a' stands there twice"),
    ],
)
def test_a_file_that_cannot_be_used_is_a_usage_error(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_decisions(text.encode())

    assert str(caught.value).startswith(FILE)
    assert says in str(caught.value)


def test_the_committed_file_gives_each_reason_something_to_decide() -> None:
    tables = tomllib.loads((CODE_ROOT / FILE).read_text())

    assert all(table.get("functions") or table.get("branches") for table in tables.values())

"""Mutants: what is mutated, into what, and under which id."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity.detection.mutation import Mutant, diff_of, find_mutant, mutants_of, source_of


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return tmp_path


def mutants(root: Path, text: str) -> list[Mutant]:
    (root / "sample.py").write_text(text, encoding="utf-8")
    return mutants_of(root, "sample.py")


@pytest.mark.parametrize(
    ("was", "operator", "becomes"),
    [
        ("return a < b", "cmp", "return (a <= b)"),
        ("return a is not b", "cmp", "return (a is b)"),
        ("return a + b", "arith", "return (a - b)"),
        ("return a or b", "andor", "return (a and b)"),
        ("return a or b", "operand", "return (b)"),
        ("return not a", "neg", "return (a)"),
        ("return 7", "plus", "return 8"),
        ("return 0", "minus", "return (-1)"),
        ("return True", "const", "return False"),
        ("return 'stall'", "text", "return 'stall~'"),
        ("return f'end:{a}'", "text", "return (f'end:{a}' + \"~\")"),
        ("return a[1:b]", "plus", "return (a[1:b + 1])"),
        ("return max(a, b)", "call", "return (min(a, b))"),
        ("return sorted(a)", "order", "return list(a)"),
        ("return [x for x in a if x]", "neg", "return ([x for x in a if not x])"),
        ("a.sort()", "drop", "pass"),
        ("a.b = 3", "drop", "pass"),
        ("a += b", "arith", "a -= b"),
        ("raise ValueError(a)", "drop", "pass"),
        ("return a", "none", "return None"),
    ],
)
def test_an_operator_changes_one_thing(made: Path, was: str, operator: str, becomes: str) -> None:
    found = mutants(made, f"def f(a, b):\n    {was}\n")

    assert (operator, becomes) in [(mutant.operator, mutant.becomes) for mutant in found]
    assert {mutant.was for mutant in found} == {was}


def test_loops_are_turned_and_left_otherwise(made: Path) -> None:
    found = mutants(made, "def f(a):\n    for x in a:\n        if x:\n            continue\n        break\n")

    changes = {(mutant.operator, mutant.was, mutant.becomes) for mutant in found}
    assert ("turn", "for x in a:", "for x in reversed(list(a)):") in changes
    assert ("neg", "if x:", "if (not x):") in changes
    assert ("jump", "continue", "break") in changes
    assert ("jump", "break", "continue") in changes


def test_what_people_read_and_what_types_say_is_left_alone(made: Path) -> None:
    text = (
        'import os\nWord = int | str\n__slots__ = ("a",)\n'
        "def f(a: 'int'):\n    \"doc\"\n    assert a > 3, 'no'\n    logger.info('a %d', 3)\n"
        "    text = 'a sentence'\n    del a\n"
    )

    assert mutants(made, text) == []


def test_an_id_names_file_symbol_number_and_operator(made: Path) -> None:
    found = mutants(made, "class A:\n    def f(self, b):\n        return b == 1\n")

    assert [mutant.id for mutant in found] == [
        "sample.py::A.f#1:none",
        "sample.py::A.f#2:cmp",
        "sample.py::A.f#3:plus",
        "sample.py::A.f#4:minus",
    ]
    assert {mutant.line for mutant in found} == {3}


def test_an_id_stays_when_another_symbol_grows(made: Path) -> None:
    before = mutants(made, "def f(a):\n    return a + 1\n")
    after = mutants(made, "def e(a):\n    return a < 2\n\n\ndef f(a):\n    return a + 1\n")

    assert [m.id for m in after if m.symbol == "f"] == [m.id for m in before]
    assert find_mutant(made, before[0].id) is not None
    assert find_mutant(made, "sample.py::gone#1:cmp") is None
    assert find_mutant(made, "missing.py::f#1:cmp") is None


def test_text_before_the_change_may_be_any_character(made: Path) -> None:
    found = mutants(made, "def f(a):\n    return 'é≤' if a < 2 else 3\n")

    (mutant,) = [mutant for mutant in found if mutant.operator == "cmp"]
    assert mutant.becomes == "return 'é≤' if (a <= 2) else 3"


def test_two_mutants_of_a_file_go_together_unless_they_overlap(made: Path) -> None:
    found = {
        m.operator: m for m in mutants(made, "def f(a):\n    return a < 1\n\n\ndef g(a):\n    return 5\n")
    }
    other = next(m for m in mutants_of(made, "sample.py") if m.symbol == "g" and m.operator == "plus")

    assert "(a <= 1)" in source_of(made, [found["cmp"], other])
    assert "return 6" in source_of(made, [found["cmp"], other])
    with pytest.raises(ValueError, match="change the same place"):
        source_of(
            made, [found["cmp"], next(m for m in mutants_of(made, "sample.py") if m.operator == "none")]
        )


def test_a_diff_shows_the_change_and_writes_nothing(made: Path) -> None:
    (mutant,) = [m for m in mutants(made, "def f(a):\n    return a < b\n") if m.operator == "cmp"]
    before = (made / "sample.py").read_bytes()

    assert "-    return a < b\n+    return (a <= b)" in diff_of(made, mutant)
    assert (made / "sample.py").read_bytes() == before

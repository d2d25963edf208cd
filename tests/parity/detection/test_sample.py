"""The choice of mutants: the same for the same seed, of every operator, and untouched by changes elsewhere."""

from __future__ import annotations

from pathlib import Path

from parity.detection.mutation import mutants_of
from parity.detection.planted import ROOT
from parity.detection.sample import pick
from parity.detection.targets import TARGETS


def test_a_seed_decides_and_the_order_is_the_sources() -> None:
    mutants = mutants_of(ROOT, "engine/scheduler.py")

    first = pick(mutants, 20, 0)

    assert first == pick(list(mutants), 20, 0)
    assert first != pick(mutants, 20, 1)
    assert len(first) == 20
    assert [mutant.begin for mutant in first] == sorted(mutant.begin for mutant in first)


def test_every_operator_comes_before_any_comes_twice() -> None:
    mutants = mutants_of(ROOT, "engine/scheduler.py")
    operators = {mutant.operator for mutant in mutants}

    assert {mutant.operator for mutant in pick(mutants, len(operators), 3)} == operators


def test_what_is_there_less_often_than_asked_is_taken_whole() -> None:
    mutants = mutants_of(ROOT, "engine/full_state.py")

    assert pick(mutants, 1000, 0) == mutants


def test_a_new_function_leaves_the_choice_among_the_others_alone(tmp_path: Path) -> None:
    text = (ROOT / "engine/ending.py").read_text()
    (tmp_path / "a.py").write_text(text)
    before = [m.becomes for m in pick(mutants_of(tmp_path, "a.py"), 1000, 0)]
    (tmp_path / "a.py").write_text(text + "\n\ndef more(a):\n    return a\n")

    assert [m.becomes for m in pick(mutants_of(tmp_path, "a.py"), 1000, 0) if m.symbol != "more"] == before


def test_every_target_exists_is_mutated_once_and_has_its_tests() -> None:
    assert len({target.file for target in TARGETS}) == len(TARGETS)
    for target in TARGETS:
        assert (ROOT / target.file).is_file()
        assert [test for test in target.tests if not (ROOT / test).exists()] == []
    assert sum(target.share for target in TARGETS) >= 150

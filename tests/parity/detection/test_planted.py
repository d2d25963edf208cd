"""A planted mutant is in force where it should be, and the source is untouched."""

from __future__ import annotations

import hashlib
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from parity.detection.children import Task, run_all
from parity.detection.mutation import Mutant, mutants_of
from parity.detection.planted import ROOT, VARIABLE, plant, variables

ASK = "import sys; from engine.block_pool import usable_blocks as f; print(f(9), sorted(n for n in sys.modules if n.startswith('parity')))"


def usable(operator: str) -> Mutant:
    return next(
        mutant
        for mutant in mutants_of(ROOT, "engine/block_pool.py")
        if mutant.symbol == "usable_blocks" and mutant.operator == operator
    )


def digest(file: str) -> str:
    return hashlib.sha256((ROOT / file).read_bytes()).hexdigest()


def ask(environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_module_is_loaded_as_mutated_under_its_own_name_and_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "tiny_planted.py"
    source.write_text("from __future__ import annotations\n\n\ndef answer():\n    return 41\n")
    monkeypatch.syspath_prepend(tmp_path)
    mutant = next(m for m in mutants_of(tmp_path, "tiny_planted.py") if m.operator == "plus")

    def work() -> list[object]:
        plant([mutant], tmp_path)
        module = importlib.import_module("tiny_planted")
        return [module.answer(), module.__name__, module.__file__]

    (answer,) = run_all([Task("", work, 20.0)], 1)

    assert answer.value == [42, "tiny_planted", str(source)]
    assert source.read_text().endswith("return 41\n")
    assert [path.name for path in tmp_path.iterdir()] == ["tiny_planted.py"]
    assert importlib.import_module("tiny_planted").answer() == 41  # here nothing was planted


def test_a_named_mutant_is_in_force_in_every_process_below() -> None:
    before = digest("engine/block_pool.py")

    clean = ask(variables([]))
    planted = ask(variables([usable("arith").id]))

    assert clean == "8 []"  # the null block is not usable
    assert planted == "10 []"  # num_blocks + 1
    assert digest("engine/block_pool.py") == before


def test_a_name_that_no_mutant_has_is_no_quiet_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "pass"],
        env={**os.environ, **variables(["engine/block_pool.py::gone#1:cmp"])},
        capture_output=True,
        text=True,
    )

    assert "no mutant engine/block_pool.py::gone#1:cmp" in done.stderr


def test_the_callers_path_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")

    assert variables(["a", "b"])[VARIABLE] == "a\nb"
    assert variables([])["PYTHONPATH"].endswith(f"{os.pathsep}/elsewhere")

"""The list of equivalent mutants: each entry is of a mutation that exists, and that nobody notices."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity.detection.equivalent import FILE, Entry, gone, read_entries, split_known
from parity.detection.mutation import file_of, mutants_of
from parity.detection.planted import ROOT
from parity.detection.result import Kill, Result, noticed_equivalents, survivors
from parity.errors import UsageError

SAMPLE = "def f(a):\n    return a < 1\n"


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    (tmp_path / "sample.py").write_text(SAMPLE)
    return tmp_path


def entry(**changes: str) -> Entry:
    fields = {
        "mutant": "sample.py::f#2:cmp",
        "was": "return a < 1",
        "becomes": "return (a <= 1)",
        "because": "a is never 1",
    }
    return Entry(**{**fields, **changes})


def test_an_entry_is_of_the_mutant_that_it_describes(sample: Path) -> None:
    mutants = mutants_of(sample, "sample.py")

    rest, known = split_known(mutants, [entry()])

    assert list(known) == ["sample.py::f#2:cmp"]
    assert len(rest) == len(mutants) - 1
    assert gone([entry()], mutants, ["sample.py"]) == []


@pytest.mark.parametrize(
    "changes", [{"mutant": "sample.py::f#9:cmp"}, {"was": "return a < 2"}, {"becomes": "pass"}]
)
def test_an_entry_whose_mutation_is_not_there_any_more_is_stale(
    sample: Path, changes: dict[str, str]
) -> None:
    mutants = mutants_of(sample, "sample.py")
    stale = entry(**changes)

    rest, known = split_known(mutants, [stale])

    assert (rest, known) == (mutants, {})
    assert gone([stale], mutants, ["sample.py"]) == [stale]
    assert gone([stale], mutants, ["other.py"]) == []  # a run of other files does not know


def test_an_entry_that_something_notices_is_stale_and_no_survivor() -> None:
    noticed = result(Kill(True, "preemption/livelock: NEW"))
    unseen = result(Kill(False, None))

    assert noticed_equivalents([noticed, unseen]) == [noticed]
    assert survivors([noticed, unseen]) == []


def result(check: Kill) -> Result:
    return Result(
        "engine/ending.py::f#1:cmp", "engine/ending.py", 1, "a", "b", check, None, "nobody can see it"
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[equivalent]]\nmutant = 'a'\nwas = 'b'\nbecomes = 'c'\nbecause = ' '\n", "a has no reason"),
        ("[[equivalent]]\nmutant = 'a'\nwas = 'b'\nbecomes = 'c'\nbecause = 'd'\n" * 2, "a is there twice"),
        ("[[equivalent]]\nmutant = 'a'\n", "is no list of equivalent mutants"),
        ("[[equivalent\n", "is no list of equivalent mutants"),
    ],
)
def test_a_list_that_cannot_be_relied_on_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "equivalent.toml"
    path.write_text(text)

    with pytest.raises(UsageError, match=complaint):
        read_entries(path)


def test_every_committed_entry_is_of_a_mutation_that_exists() -> None:
    entries = read_entries(ROOT / FILE)
    files = {file_of(item.mutant) for item in entries}

    assert gone(entries, [mutant for file in files for mutant in mutants_of(ROOT, file)], files) == []

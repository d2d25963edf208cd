"""The command: what it plants, what it says, and what it does with a mistake."""

from __future__ import annotations

import json

import pytest

from parity.detection import mutants as command
from parity.detection.equivalent import Entry
from parity.detection.mutation import mutants_of
from parity.detection.planted import ROOT
from parity.detection.report import Report, as_json, lines
from parity.detection.result import Kill, Result


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--only", "engine.core"], "no mutants are made of engine/core.py"),
        (["--mutant", "engine/ending.py::gone#1:cmp"], "no mutant engine/ending.py::gone#1:cmp"),
        (["--jobs", "0"], "takes a whole number of at least 1"),
    ],
)
def test_a_mistake_is_one_line_and_64(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = command.main(arguments)
    except SystemExit as ended:
        code = int(str(ended.code))

    assert code == 64
    said = capsys.readouterr()
    assert said.out == ""
    assert complaint in said.err
    assert said.err.count("\n") == 1


def test_a_list_names_each_mutant_and_its_change(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--list", "--all", "--only", "engine.ending"]) == 0

    said = capsys.readouterr().out.splitlines()
    assert len(said) == len(mutants_of(ROOT, "engine/ending.py"))
    assert all(line.startswith("engine/ending.py::") and " -> " in line for line in said)


def result(operator: str, killed: bool, equivalent: str | None = None) -> Result:
    mutant = next(m for m in mutants_of(ROOT, "engine/ending.py") if m.operator == operator)
    kill = Kill(killed, "preemption/livelock: NEW" if killed else None)
    return Result(mutant.id, mutant.file, mutant.line, mutant.was, mutant.becomes, kill, None, equivalent)


def report(*results: Result, gone: list[Entry] | None = None) -> Report:
    return Report(list(results), gone or [], 0, 31, 60.0)


def test_a_report_has_the_share_and_each_survivor_with_its_change() -> None:
    survivor = result("drop", killed=False)
    whole = report(result("cmp", killed=True), survivor, result("none", killed=False, equivalent="why"))

    text = "\n".join(lines(whole, ROOT, mutants_of(ROOT, "engine/ending.py")))

    assert not whole.passes  # 1 of 2 is less than 97 %; the equivalent one does not count
    assert "engine   check        1 of    2    50.0%   (97% wanted, MISSED)" in text
    assert f"SURVIVES check: {survivor.id}" in text
    assert "  +        pass" in text


def test_a_report_tells_stale_entries_and_does_not_pass() -> None:
    noticed = result("cmp", killed=True, equivalent="nobody can see it")
    lost = Entry("engine/ending.py::f#1:cmp", "a", "b", "c")

    text = "\n".join(lines(report(noticed, gone=[lost]), ROOT, []))

    assert f"STALE: {noticed.id} is on file as equivalent, and was noticed" in text
    assert "STALE: there is no mutant engine/ending.py::f#1:cmp that makes 'a' to 'b'" in text
    assert not report(noticed).passes
    assert not report(gone=[lost]).passes
    assert report(result("cmp", killed=True)).passes


def test_the_json_object_has_shares_and_survivors() -> None:
    survivor = result("drop", killed=False)

    value = json.loads(as_json(report(survivor)))

    assert value["survivors"] == [survivor.id]
    assert value["shares"] == [
        {"group": "engine", "by": "check", "killed": 0, "of": 1, "rate": 0.0, "reached": False}
    ]

"""The verb on real upstream: what a part of the suite executes, and that the whole of it leaves nothing undecided."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from parity.cli.main import main
from parity.errors import InconclusiveError
from parity.reach import play
from parity.reach.play import read_report


def objects(shown: dict[str, Any]) -> dict[str, bool]:
    return {
        f"{file['path']}::{name}": entered
        for file in shown["files"]
        for name, entered in file["functions"].items()
    }


@pytest.mark.oracle
def test_a_part_of_the_suite_enters_the_scheduler_and_no_sliding_window(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = main(["coverage", "preemption/sole-request-fits", "--json"])

    shown = json.loads(capsys.readouterr().out)
    entered = objects(shown)
    assert (code, shown["partial"], shown["scenarios"]) == (0, True, 1)
    assert entered["sched/scheduler.py::Scheduler.schedule"]
    assert entered["block_pool.py::BlockPool.get_new_blocks"]
    assert not entered["sched/scheduler.py::Scheduler._preempt_request"]
    sliding = [name for name in entered if "::SlidingWindowManager." in name]
    assert len(sliding) > 1
    assert not any(entered[name] for name in sliding)


@pytest.mark.oracle
def test_the_whole_suite_reaches_all_that_is_in_scope(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["coverage"])

    printed = capsys.readouterr().out
    assert [line for line in printed.splitlines() if line.startswith(("to do:", "stale:"))] == []
    assert code == 0


@pytest.mark.oracle
def test_scripts_alone_are_nothing_to_measure(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["coverage", "shutdown"])

    assert code == 64
    assert "level serve" in capsys.readouterr().err


@pytest.mark.oracle
def test_without_coverage_py_nothing_is_concluded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(play, "TOOL", "no_such_coverage")

    code = main(["coverage", "preemption/sole-request-fits"])

    assert code == 2
    assert "make setup-test" in capsys.readouterr().err


@pytest.mark.parametrize(
    "contents", [[], [""], ['{"files": {}'], ['{"files": {}}', '{"files": {}}']], ids=str
)
def test_a_report_that_is_not_there_once_and_whole_concludes_nothing(
    tmp_path: Path, contents: list[str]
) -> None:
    for number, content in enumerate(contents):
        (tmp_path / f"{number}.json").write_text(content)

    with pytest.raises(InconclusiveError):
        read_report(tmp_path)


def test_the_one_whole_report_is_read(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text('{"files": {}, "meta": {"version": "7"}}')

    assert read_report(tmp_path).files == {}

"""The commands run, check and show: what they print, what they refuse, and what becomes of files and exit codes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from parity.ask import Ask
from parity.cli import output
from parity.cli.main import main
from parity.errors import Interrupted, RunFileError
from parity.interrupts import REQUESTS, take_over
from parity.oracle_side import Way
from parity.report.progress import RunProgress
from parity.session import run
from parity.subjects import players
from tests.parity.stand_in import StandIn

pytestmark = pytest.mark.usefixtures("stand_in")


@pytest.mark.usefixtures("here")
def test_a_full_disk_is_one_line_and_inconclusive(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["run", "auto-fit/null-block", "--out", "/dev/full"])

    assert code == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert "No space left on device" in error


def test_an_existing_run_file_is_not_overwritten(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = here / "run.jsonl"
    there.write_text("precious")

    code = main(["run", "auto-fit/null-block", "--out", str(there)])

    assert code == 64
    assert there.read_text() == "precious"
    assert "exists already" in capsys.readouterr().err


def test_the_json_object_has_the_promised_form(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["run", "auto-fit/null-block", "--json", "--out", str(here / "a.jsonl")])

    shown = json.loads(capsys.readouterr().out)
    assert code == 0
    assert set(shown) == {
        "pin",
        "partial",
        "counts",
        "seconds",
        "servers",
        "subject",
        "against",
        "not_compared",
        "scenarios",
        "records",
    }
    assert shown["pin"] == {"name": "vllm-0.27.1", "version": "0.27.1", "measured": "0.27.1"}
    assert shown["partial"] is True
    assert set(shown["seconds"]) == {"oracle", "subject", "harness"}
    finding = shown["scenarios"][0]["findings"][0]
    assert set(finding) == {
        "fingerprint",
        "attribution",
        "property",
        "at",
        "oracle",
        "subject",
        "record",
        "verdict",
    }
    assert (finding["oracle"], finding["subject"], finding["attribution"]) == (64, 64, "mirrored")


@pytest.mark.usefixtures("here")
def test_show_marks_the_first_difference(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["show", "auto-fit/null-block", "--policy", "null-block-capacity=reserve", "--json"])

    shown = json.loads(capsys.readouterr().out)
    assert code == 0
    assert set(shown) == {"id", "oracle", "subject", "first_difference"}
    assert (shown["oracle"]["max_model_len"], shown["subject"]["max_model_len"]) == (64, 48)
    assert shown["first_difference"] == "max_model_len"


@pytest.mark.usefixtures("here")
def test_show_prints_native_output_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    step = {"scheduler_output": {"num_scheduled_tokens": {"r0": 8}, "finished_req_ids": []}}
    ways: list[Way] = []

    def start(*asked: Any) -> StandIn:
        ways.append(asked[3])
        return StandIn(native=(step,))

    monkeypatch.setattr(players, "start_oracle", start)
    command = ["show", "preemption/sole-request-fits", "--debug"]

    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["native"] == [step]
    assert main(command) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[-2:] == [
        "upstream's native output, 1 step",
        "steps[0].scheduler_output.num_scheduled_tokens.r0: 8",
    ]
    assert ways == [Way(debug=True)] * 2


def test_a_partial_run_says_so(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", "--family", "preemption", "--out", str(here / "a.jsonl")])

    assert "partial run" in capsys.readouterr().out


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["run", "no-such/thing"], "no scenario 'no-such/thing'"),
        (["run", "--family", "premption"], "preemption"),
        (["run", "--policy", "null-block-capacity"], "NAME=VALUE"),
        (["run", "--policy", "null-block-capacity=resreve"], "did you mean 'reserve'"),
        (["run", "--pin", "vllm-0.27"], "vllm-0.27.1"),
        (["show", "block-count/boundary"], "names"),
        (["show", "auto-fit/null-block", "--debug"], "level plan has no steps"),
        (["show", "serving/wedge", "--debug", "--run", "run.jsonl"], "plays nothing"),
        (["fidelity", "no-such/thing"], "no scenario 'no-such/thing'"),
        (["fidelity", "shutdown"], "level serve"),
        (["check", "--repeat", "0"], "at least 1"),
        (["check", "preemption"], "unrecognized arguments"),
        (["chekc"], "invalid choice"),
        ([], "required"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line_and_64(
    command: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(command)
    except SystemExit as stop:
        code = stop.code  # type: ignore[assignment]

    shown = capsys.readouterr()
    assert code == 64
    assert says in shown.err
    assert len(shown.err.strip().splitlines()) == 1
    assert shown.out == ""


@pytest.mark.parametrize("name", ["run.jsonl", "gone/../run.jsonl"])
def test_no_spelling_of_a_path_overwrites_a_file(
    name: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "run.jsonl").write_text("precious")

    code = main(["run", "auto-fit/null-block", "--out", str(here / name)])

    assert code == 64
    assert (here / "run.jsonl").read_text() == "precious"
    assert "exists already" in capsys.readouterr().err


def test_a_run_under_way_keeps_another_from_its_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "run.jsonl.part").write_text("of somebody else")

    code = main(["run", "auto-fit/null-block", "--out", str(here / "run.jsonl")])

    assert code == 2
    assert (here / "run.jsonl.part").read_text() == "of somebody else"
    assert "under way" in capsys.readouterr().err


def test_a_file_that_appears_during_the_run_is_not_replaced(checkout: Path) -> None:
    out = checkout / "out.jsonl"

    class Meddler(RunProgress):
        def played(self, _result: Any = None) -> None:
            out.write_text("precious")

    with pytest.raises(RunFileError, match="File exists"):
        run(Ask(root=checkout, ids=("auto-fit/null-block",), out=out), Meddler())

    assert out.read_text() == "precious"


@pytest.mark.usefixtures("here")
def test_a_folder_is_no_run_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "auto-fit/null-block", "--out", str(tmp_path)]) == 64
    assert "is a folder" in capsys.readouterr().err


@pytest.fixture
def prints_to(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Stdout on a descriptor, as the program has it."""
    opened: list[int] = []

    def use(descriptor: int) -> None:
        opened.append(descriptor)
        raw = output.Results(descriptor, "w", closefd=False)
        monkeypatch.setattr("sys.stdout", output.text(raw, None))

    yield use
    for descriptor in opened:
        os.close(descriptor)


def test_a_red_run_stays_red_when_its_reader_leaves(here: Path, prints_to: Callable[[int], None]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    prints_to(writing)

    code = main(
        [
            "run",
            "auto-fit/control",
            "--policy",
            "null-block-capacity=reserve",
            "--json",
            "--out",
            str(here / "a"),
        ]
    )

    assert code == 1


def test_an_output_that_cannot_be_written_is_one_line(
    here: Path, prints_to: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    prints_to(os.open("/dev/full", os.O_WRONLY))

    code = main(["run", "auto-fit/null-block", "--json", "--out", str(here / "a")])

    assert code == 2
    assert "the output cannot be written: No space left on device" in capsys.readouterr().err


def test_sigterm_ends_a_run_as_ctrl_c_does(checkout: Path) -> None:
    class Killer(RunProgress):
        def played(self, _result: Any = None) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

    before = {number: signal.getsignal(number) for number in REQUESTS}
    take_over()
    try:
        with pytest.raises(Interrupted):
            run(Ask(root=checkout, ids=("auto-fit/null-block",), out=checkout / "a"), Killer())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

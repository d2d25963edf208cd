"""Whole runs over the committed suite and records, with the engine's own untouched answers standing in for the oracle.

The stand-in's observations are made before anything is planted, so what is planted shows on the subject only.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine import capacity
from engine.block_pool import BlockPool
from oracle.verify import Measured
from parity import session
from parity.cli.main import main, terminate
from parity.engine_side import EngineSide
from parity.errors import Interrupted, RunFileError
from parity.finding import Outcome, Verdict
from parity.report.progress import RunProgress
from parity.root import CODE_ROOT
from parity.runlog import read_run
from parity.scenario import Scenario
from parity.session import Ask, run
from parity.side import Play
from parity.suite import load_suite


@cache
def untouched_plays() -> dict[str, Play]:
    side = EngineSide()
    plays = {}
    for case in load_suite(CODE_ROOT):
        side.begin(case.scenario)
        plays[case.id] = side.finish()
    return plays


class StandIn:
    """A side that answers what the untouched engine answered; `fails` are ids of scenarios that it dies in."""

    name = "oracle"

    def __init__(self, fails: frozenset[str] = frozenset(), flaky: frozenset[str] = frozenset()) -> None:
        self._fails = fails
        self._flaky = flaky
        self._times: dict[str, int] = {}
        self._id = ""

    def hello(self) -> dict[str, Any]:
        return {"name": "stand-in", "version": "0.27.1", "model_runner": "v1"}

    def begin(self, scenario: Scenario) -> None:
        self._id = scenario.id

    def finish(self) -> Play:
        if self._id in self._fails:
            return Play(None, "the process ended with status 9", 0.0)
        play = untouched_plays()[self._id]
        self._times[self._id] = self._times.get(self._id, 0) + 1
        if self._id in self._flaky and self._times[self._id] % 2 == 0:
            assert play.observation is not None
            changed = msgspec.structs.replace(play.observation, num_blocks=99)  # type: ignore[type-var]
            return msgspec.structs.replace(play, observation=changed)
        return play

    def close(self) -> None:
        """No process to end."""


@pytest.fixture(scope="module", autouse=True)
def plays_before_anything_is_planted() -> None:
    untouched_plays()


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    measured = Measured(
        pin="vllm-0.27.1",
        version="0.27.1",
        source="wheel",
        commit=None,
        wheel_sha256=None,
        python="3.11",
        torch=None,
        package=Path("vllm"),
        prefix=Path("env"),
        files={},
        mismatches=(),
    )

    def use(**vices: frozenset[str]) -> None:
        monkeypatch.setattr(session, "measure_oracle", lambda *_: measured)
        monkeypatch.setattr(session, "start_oracle", lambda *_: StandIn(**vices))

    use()
    return use


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A tree with the committed scenarios, pins and records, whose records may be changed."""
    root = tmp_path / "clone"
    for folder in ("parity/scenarios", "oracle/pins", "records"):
        shutil.copytree(CODE_ROOT / folder, root / folder)
    return root


def check(root: Path, **asked: Any) -> Outcome:
    return run(Ask(root=root, **asked), RunProgress()).outcome


def of(outcome: Outcome, name: str) -> Verdict:
    return next(result.verdict for result in outcome.scenarios if result.id == name)


pytestmark = pytest.mark.usefixtures("stand_in")


def test_the_whole_suite_is_match_and_covered(checkout: Path) -> None:
    outcome = check(checkout)

    assert set(outcome.counts) == {"MATCH", "COVERED"}
    assert outcome.exit_code == 0
    assert len(outcome.scenarios) >= 250


@pytest.mark.parametrize("record", sorted(CODE_ROOT.glob("records/*/*.md")), ids=lambda path: path.stem)
def test_without_any_one_record_the_run_is_red_and_new(checkout: Path, record: Path) -> None:
    (checkout / record.relative_to(CODE_ROOT)).unlink()

    outcome = check(checkout)

    assert outcome.exit_code == 1
    assert outcome.verdict is Verdict.NEW


def test_a_fault_in_the_eviction_order_is_new_and_ours(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = BlockPool.release
    monkeypatch.setattr(BlockPool, "release", lambda self, blocks: release(self, list(blocks)[::-1]))

    outcome = check(checkout)

    assert outcome.exit_code == 1
    new = [item for result in outcome.scenarios for item in result.decided if item.verdict is Verdict.NEW]
    assert {item.finding.attribution for item in new} == {"ours"}


def test_a_change_behind_a_mirrored_finding_is_new(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, under_reserve=False)

    outcome = check(checkout, ids=("auto-fit/null-block",))

    assert of(outcome, "auto-fit/null-block") is Verdict.NEW
    new = [item.finding for item in outcome.scenarios[0].decided if item.verdict is Verdict.NEW]
    assert [(finding.attribution, finding.at) for finding in new] == [("ours", "kv_cache_size_tokens")]
    assert outcome.exit_code == 1


def test_a_second_fault_behind_a_recorded_difference_is_changed(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, under_reserve=True)

    outcome = check(checkout)

    changed = {verdict.id: verdict.verdict for verdict in outcome.records}
    assert changed == {"auto-fit/null-block-counted": Verdict.CHANGED}
    assert outcome.exit_code == 1
    assert all(result.verdict.passes for result in outcome.scenarios), "the pin's own choice is untouched"


def test_under_a_policy_a_recorded_difference_is_covered_and_a_second_fault_changed(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {
        "ids": ("preemption/sole-request-outgrows-pool",),
        "policies": {"null-block-capacity": "reserve"},
    }

    covered = check(checkout, **asked)
    plant(monkeypatch, under_reserve=True)
    changed = check(checkout, **asked)

    assert (covered.verdict, covered.exit_code) == (Verdict.COVERED, 0)
    assert (changed.verdict, changed.exit_code) == (Verdict.CHANGED, 1)


def plant(monkeypatch: pytest.MonkeyPatch, *, under_reserve: bool) -> None:
    """One token too many in the advertised size: always, or only under the policy `reserve`."""
    plan = capacity.plan

    def faulty(config: Any, policies: Any) -> Any:
        made = plan(config, policies)
        if isinstance(made, capacity.PlanOk) and policies.null_block_capacity.reserves is under_reserve:
            return msgspec.structs.replace(made, kv_cache_size_tokens=made.kv_cache_size_tokens + 1)
        return made

    monkeypatch.setattr(capacity, "plan", faulty)


def test_an_oracle_that_dies_in_a_scenario_makes_it_void(checkout: Path, stand_in: Any) -> None:
    stand_in(fails=frozenset({"auto-fit/null-block"}))

    outcome = check(checkout, family="auto-fit")

    assert of(outcome, "auto-fit/null-block") is Verdict.VOID
    assert outcome.exit_code == 2


def test_a_side_that_disagrees_with_itself_is_flaky(checkout: Path, stand_in: Any) -> None:
    stand_in(flaky=frozenset({"auto-fit/null-block"}))

    outcome = check(checkout, ids=("auto-fit/null-block",), repeat=2)

    assert outcome.verdict is Verdict.FLAKY
    assert outcome.exit_code == 1


def test_the_run_file_holds_both_observations_and_the_counts(checkout: Path) -> None:
    done = run(Ask(root=checkout, family="preemption"), RunProgress())

    read = read_run(done.path)

    assert read.header.partial
    assert read.header.pin.measured == "0.27.1"
    assert read.footer.counts == done.outcome.counts
    line = read.scenario("preemption/sole-request-outgrows-pool")
    assert line.oracle.observations == line.subject.observations
    assert (checkout / "run.jsonl").resolve() == done.path


def test_an_interrupted_run_keeps_what_was_played_and_is_no_run(checkout: Path) -> None:
    played = []

    class Stopper(RunProgress):
        def played(self, result: Any = None) -> None:
            played.append(result)
            if len(played) == 5:
                raise KeyboardInterrupt

    with pytest.raises(Interrupted, match=r"out\.jsonl\.part"):
        run(Ask(root=checkout, out=checkout / "out.jsonl"), Stopper())

    part = checkout / "out.jsonl.part"
    lines = [json.loads(line)["line"] for line in part.read_text().splitlines()]
    assert lines == ["header"] + ["scenario"] * 5
    assert not (checkout / "out.jsonl").exists()


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The command line works on this checkout, and its run files go to a folder of the test's."""
    monkeypatch.chdir(CODE_ROOT)
    return tmp_path


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
    assert set(shown) == {"pin", "partial", "counts", "seconds", "scenarios", "records"}
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


def test_a_red_run_stays_red_when_its_reader_leaves(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(*_: object, **__: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("parity.cli.running.json.dump", leave)
    monkeypatch.setattr("parity.cli.output.silence", lambda: None)

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
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("parity.cli.running.json.dump", full)
    monkeypatch.setattr("parity.cli.output.silence", lambda: None)

    code = main(["run", "auto-fit/null-block", "--json", "--out", str(here / "a")])

    assert code == 2
    assert "the output cannot be written: No space left on device" in capsys.readouterr().err


def test_sigterm_ends_a_run_as_ctrl_c_does(checkout: Path) -> None:
    class Killer(RunProgress):
        def played(self, _result: Any = None) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        with pytest.raises(Interrupted):
            run(Ask(root=checkout, ids=("auto-fit/null-block",), out=checkout / "a"), Killer())
    finally:
        signal.signal(signal.SIGTERM, before)

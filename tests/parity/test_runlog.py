"""`run.jsonl`: what is written comes back, and nothing that is not whole is trusted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from parity.errors import ExitCode, RunFileError
from parity.finding import Outcome, Plays, RecordVerdict, Verdict
from parity.judge import judge
from parity.observation import PlanError
from parity.runlog import FORMAT, Header, Pin, Seconds, Writer, observations, read_run
from parity.verdicts import decide
from tests.parity.held import ENGINE, OTHER
from tests.records.miniature import (
    FIRST,
    LAST,
    case,
    context,
    empty_step,
    judged,
    plan,
    plays,
    record,
    schedule,
)

HEADER = Header(
    format=FORMAT,
    pin=Pin("vllm-0.27.1", "0.27.1", "0.27.1"),
    commit="0" * 40,
    dirty=False,
    machine="x86_64, 2 cores",
    records="sha256:" + "0" * 64,
    model_runner="v1",
    policies={"null-block-capacity": "reserve"},
    partial=True,
    subject=ENGINE,
)
SECONDS = Seconds(1.5, 0.25, 0.125)
CASES = (case(), case("preemption/stall", "schedule"), case("auto-fit/refused"))
PLAYED: tuple[tuple[Plays, Plays], ...] = (
    (plays(plan(max_model_len=160)), plays(plan(max_model_len=160))),
    (plays(schedule(FIRST, empty_step(), end="stall")), plays(schedule(FIRST, LAST))),
    (plays(PlanError([], "kv-cache-too-small", 48)), Plays((), "died with exit status 9", 0.5)),
)


def outcome_of() -> Outcome:
    sides = zip(CASES, PLAYED, strict=True)
    return decide([judge(one, oracle, subject) for one, (oracle, subject) in sides], [], context())


def write(path: Path, *, finish: bool = True) -> Outcome:
    outcome = outcome_of()
    with Writer(path, HEADER) as writer:
        for result, (oracle, subject) in zip(outcome.scenarios, PLAYED, strict=True):
            writer.scenario(result, oracle, subject)
        if finish:
            writer.finish(outcome, SECONDS)
    return outcome


def refused(path: Path) -> str:
    with pytest.raises(RunFileError) as caught:
        read_run(path)
    assert caught.value.exit_code is ExitCode.INCONCLUSIVE
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_finished_run_reads_back_whole(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "run.jsonl"

    outcome = write(path)
    run = read_run(path)

    assert run.header == HEADER
    assert tuple(line.result for line in run.scenarios) == outcome.scenarios
    assert (run.footer.counts, run.footer.exit_code) == (outcome.counts, int(outcome.exit_code))
    assert run.footer.seconds == SECONDS
    for line, (oracle, subject) in zip(run.scenarios, PLAYED, strict=True):
        assert observations(HEADER, line, "oracle") == oracle.observations
        assert observations(HEADER, line, "subject") == subject.observations
    assert run.scenarios[2].subject.failure == "died with exit status 9"
    assert not path.with_name("run.jsonl.part").exists()


def test_verdicts_on_records_are_in_the_footer(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    outcome = decide([judged("auto-fit/other")], [record(policy="no-such=value")], context())

    with Writer(path, HEADER) as writer:
        writer.finish(outcome, SECONDS)

    told = read_run(path).footer.records
    assert told == (RecordVerdict("auto-fit/decided", Verdict.ORPHAN, outcome.records[0].detail),)


def test_each_scenario_is_on_the_disk_before_the_next_one_is_played(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    outcome = outcome_of()

    with Writer(path, HEADER) as writer:
        for number, (result, (oracle, subject)) in enumerate(zip(outcome.scenarios, PLAYED, strict=True), 1):
            writer.scenario(result, oracle, subject)
            assert len((tmp_path / "run.jsonl.part").read_bytes().splitlines()) == 1 + number


def test_a_run_replaces_no_file(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    write(path)
    before = path.read_bytes()

    with pytest.raises(RunFileError, match="File exists"):
        write(path)

    assert path.read_bytes() == before


def test_a_run_without_footer_is_incomplete_and_takes_no_name(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"

    write(path, finish=False)

    assert not path.exists()
    part = tmp_path / "run.jsonl.part"
    assert refused(part).startswith(f"incomplete run: {part} has no footer")


def test_a_first_run_that_was_cut_short_is_told_as_incomplete(tmp_path: Path) -> None:
    write(tmp_path / "run.jsonl", finish=False)

    assert "incomplete run" in refused(tmp_path / "run.jsonl")


def test_a_run_file_that_is_not_there_is_told_as_missing(tmp_path: Path) -> None:
    assert "there is no run file" in refused(tmp_path / "run.jsonl")


@pytest.mark.parametrize("keep", [0, 1, 2, 3])
def test_a_file_cut_off_after_any_line_is_incomplete(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "run.jsonl"
    write(path)
    path.write_bytes(b"\n".join(path.read_bytes().splitlines()[:keep]))

    assert "incomplete run" in refused(path)


def test_a_file_cut_off_within_its_last_line_is_incomplete(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    write(path)
    path.write_bytes(path.read_bytes()[:-20])

    assert "incomplete run" in refused(path)


def edit(path: Path, number: int, row: bytes | dict[str, Any]) -> None:
    rows = path.read_bytes().splitlines()
    if isinstance(row, dict):
        row = msgspec.json.encode({**msgspec.json.decode(rows[number - 1]), **row})
    rows[number - 1] = row
    path.write_bytes(b"\n".join(rows) + b"\n")


@pytest.mark.parametrize(
    ("number", "row", "message"),
    [
        (1, b"{nonsense", "run.jsonl:1: is no run file (its first line is no JSON)"),
        (1, b'{"line": "scenario"}', "run.jsonl:1: is no run file (its first line is no header)"),
        (1, {"format": 99}, "run.jsonl:1: run file format 99, not 2"),
        (1, {"pin": 3}, "run.jsonl:1: the header is not as it must be"),
        (3, b"{nonsense", "run.jsonl:3: is no JSON"),
        (3, b"[]", "run.jsonl:3: is no line of a run file"),
        (3, {"verdict": "FINE"}, "run.jsonl:3: is no line of a run file"),
        (5, {"scenarios": 7}, "its footer counts 7 scenarios, it has 3"),
    ],
)
def test_a_line_that_is_none_is_named(tmp_path: Path, number: int, row: Any, message: str) -> None:
    path = tmp_path / "run.jsonl"
    write(path)
    edit(path, number, row)

    assert message in refused(path)


def test_nothing_may_follow_the_footer(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    write(path)
    path.write_bytes(path.read_bytes() * 2)

    assert "run.jsonl:6: there is something after the footer" in refused(path)


def test_an_observation_that_is_none_is_told_when_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    write(path)
    edit(path, 2, {"oracle": {"observations": [{"status": "ok"}], "failure": None, "seconds": 0.0}})

    with pytest.raises(RunFileError, match="auto-fit/null-block: the oracle's observation is none"):
        observations(HEADER, read_run(path).scenarios[0], "oracle")


def test_a_level_that_is_none_is_told_when_an_observation_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    write(path)
    edit(path, 2, {"level": "steps"})

    with pytest.raises(RunFileError, match="Invalid enum value 'steps'"):
        observations(HEADER, read_run(path).scenarios[0], "oracle")


def test_a_scenario_that_was_not_played_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    write(path)

    with pytest.raises(RunFileError, match="the run did not play auto-fit/absent"):
        read_run(path).scenario("auto-fit/absent")


def test_a_full_disk_is_one_line() -> None:
    with pytest.raises(RunFileError, match="cannot be written: No space left on device"):
        Writer(Path("/dev/full"), HEADER)
    assert not Path("/dev/full.part").exists()


def test_a_disk_that_fills_up_later_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    outcome = outcome_of()
    writer = Writer(path, HEADER)
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, writer._file.fileno())
    os.close(full)

    with pytest.raises(RunFileError, match="No space left on device"), writer:
        writer.scenario(outcome.scenarios[0], *PLAYED[0])

    assert not path.exists()


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")

    with pytest.raises(RunFileError, match="cannot be written"):
        Writer(tmp_path / "file" / "run.jsonl", HEADER)
    with pytest.raises(RunFileError, match="cannot be written: Is a directory"):
        Writer(tmp_path, HEADER)


def test_a_run_of_the_format_before_subjects_says_to_run_again(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    write(path)
    edit(path, 1, {"format": 1})

    with pytest.raises(RunFileError, match="run file format 1, not 2") as caught:
        read_run(path)

    assert caught.value.hint == "run again with this version"


def test_whoever_was_held_against_whom_is_in_the_header(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    write(path)
    lines = path.read_bytes().splitlines(keepends=True)
    assert read_run(path).header.is_of_engine

    for header, is_of_engine in (
        (msgspec.structs.replace(HEADER, subject=OTHER), False),
        (msgspec.structs.replace(HEADER, pin=None, against=OTHER), False),
    ):
        path.write_bytes(msgspec.json.encode(header) + b"\n" + b"".join(lines[1:]))
        assert read_run(path).header == header
        assert read_run(path).header.is_of_engine is is_of_engine

"""`parity record` from end to end, in a small tree."""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from oracle.symbols import symbol_digest
from parity.cli import record
from parity.errors import ExitCode, RecordError, RunFileError, UsageError
from parity.judge import judge
from parity.runlog import FORMAT, Header, Held, Pin, Seconds, Writer, read_run
from parity.subjects.subject import load_subject
from parity.verdicts import decide
from tests.parity.held import ENGINE, OTHER
from tests.records.miniature import case, context, plan, plays

FIXTURES = Path(__file__).parent / "fixtures"
Run = Callable[..., int]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with a pin, a source file, upstream's, and one accepted record."""
    shutil.copytree(FIXTURES / "tree", tmp_path, dirs_exist_ok=True)
    (tmp_path / "records" / "auto-fit").mkdir(parents=True)
    good = (FIXTURES / "good" / "anchor-moved.md").read_text(encoding="utf-8")
    source = (tmp_path / "engine" / "sample.py").read_text(encoding="utf-8")
    text = good.replace("SAMPLE_DIGEST", symbol_digest(source, "answer"))
    (tmp_path / "records" / "auto-fit" / "counted.md").write_text(text, encoding="utf-8")
    monkeypatch.setattr("parity.root.project_root", lambda: tmp_path)
    monkeypatch.setattr(record, "_today", lambda: datetime.date(2026, 12, 24))
    return tmp_path


@pytest.fixture
def parity(tree: Path) -> Run:
    """Runs `parity record …` with the tree's upstream wherever an action reads it."""

    def run(action: str, *words: str) -> int:
        parser = argparse.ArgumentParser()
        record.register(parser.add_subparsers(dest="verb", required=True))
        reads = ["--upstream", str(tree / "upstream")] if action not in ("list", "show") else []
        args = parser.parse_args(["record", action, *words, *reads])
        return int(args.execute(args))

    return run


@pytest.fixture
def run_file(tree: Path) -> Path:
    """A finished run of one scenario in which the engine keeps one block too many."""
    return write_run(tree, tree / "run.jsonl", ENGINE)


def write_run(tree: Path, path: Path, held: Held) -> Path:
    pin = Pin("vllm-0.27.1", "0.27.1", "0.27.1")
    digest = load_subject(tree / "subjects" / f"{held.name}.toml").digest
    subject_line = msgspec.structs.replace(held, digest=digest)
    header = Header(FORMAT, pin, None, False, "here", "sha256:0", "v1", {}, True, subject_line)
    oracle, subject = plays(plan()), plays(plan(num_blocks=11))
    outcome = decide([judge(case(), oracle, subject)], [], context())
    with Writer(path, header) as writer:
        writer.scenario(outcome.scenarios[0], oracle, subject)
        writer.finish(outcome, Seconds(1.0, 1.0, 1.0))
    return path


def test_a_draft_is_written_and_its_path_printed(
    parity: Run, tree: Path, run_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = parity("new", "--from", f"{run_file}#auto-fit/null-block")

    assert status == ExitCode.OK
    assert capsys.readouterr().out == "records/auto-fit/null-block.md\n"
    text = (tree / "records" / "auto-fit" / "null-block.md").read_text(encoding="utf-8")
    assert "attribution: ours" in text
    assert "at: num_blocks, oracle: 10, subject: 11" in text
    with pytest.raises(RecordError, match="is not overwritten"):
        parity("new", "--from", f"{run_file}#auto-fit/null-block")
    assert (tree / "records" / "auto-fit" / "null-block.md").read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("run.jsonl", UsageError, "is not RUNFILE#SCENARIO"),
        ("absent.jsonl#auto-fit/null-block", RunFileError, "there is no run file"),
        ("run.jsonl#auto-fit/absent", RunFileError, "the run did not play auto-fit/absent"),
    ],
)
def test_a_source_that_cannot_be_read_is_one_line(
    parity: Run, run_file: Path, source: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        parity("new", "--from", str(run_file.parent / source))

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("slug", ["../../escape", "Upper", ""])
def test_a_slug_stays_within_its_area(parity: Run, tree: Path, run_file: Path, slug: str) -> None:
    with pytest.raises(UsageError, match="is not lower-case words joined by dashes"):
        parity("new", "--from", f"{run_file}#auto-fit/null-block", "--slug", slug)

    assert sorted(path.name for path in (tree / "records").rglob("*.md")) == ["counted.md"]


def test_the_lint_is_silent_on_stdout_where_all_is_well(
    parity: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    status = parity("lint")

    captured = capsys.readouterr()
    assert (status, captured.out) == (ExitCode.OK, "")
    assert "1 records, 0 problems" in captured.err


def test_the_lint_names_file_line_and_rule(
    parity: Run, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tree / "records" / "auto-fit" / "counted.md"
    path.write_text(
        path.read_text(encoding="utf-8").replace("state: accepted", "state: agreed"), encoding="utf-8"
    )

    status = parity("lint")
    told = capsys.readouterr().out
    parity("lint", "--json")
    problems = json.loads(capsys.readouterr().out)["problems"]

    assert status == ExitCode.USAGE
    assert told.startswith("records/auto-fit/counted.md:3: state 'agreed' is none of")
    assert told.endswith("[bad-state]\n")
    assert [(problem["rule"], problem["line"]) for problem in problems] == [("bad-state", 3)]


def test_the_list_has_a_line_a_record_and_an_object_for_scripts(
    parity: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    parity("list")
    line = capsys.readouterr().out
    parity("list", "--json")
    (shown,) = json.loads(capsys.readouterr().out)["records"]

    assert line.split()[:4] == ["auto-fit/counted", "accepted", "mirror", "mirrored"]
    assert (shown["id"], shown["state"], shown["solo"], shown["expires"]) == (
        "auto-fit/counted",
        "accepted",
        False,
        None,
    )
    assert shown["scenarios"] == ["auto-fit/null-block"]


def test_a_record_is_shown_as_it_stands(parity: Run, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parity("show", "auto-fit/counted")
    text = capsys.readouterr().out
    parity("show", "auto-fit/counted", "--json")
    shown = json.loads(capsys.readouterr().out)

    assert text == (tree / "records" / "auto-fit" / "counted.md").read_text(encoding="utf-8")
    assert shown["front"]["proposed"] == {"on": "2026-12-01", "by": "@somebody", "solo": False}
    assert shown["sections"]["Decision"] == "The engine does as the pin does."


@pytest.mark.parametrize("action", ["show", "accept", "refresh"])
def test_an_unknown_record_is_told_with_the_nearest_one(parity: Run, action: str) -> None:
    words = ["--by", "@other"] if action == "accept" else []

    with pytest.raises(
        UsageError, match=r"there is no record auto-fit/countd — did you mean auto-fit/counted\?"
    ):
        parity(action, "auto-fit/countd", *words)


def test_a_proposed_record_is_accepted_in_its_file(parity: Run, tree: Path) -> None:
    path = tree / "records" / "auto-fit" / "counted.md"
    before = path.read_text(encoding="utf-8")
    stamp = "decided: {on: 2026-12-02, by: '@maintainers'}"
    proposed = before.replace("state: accepted", "state: proposed").replace(stamp, "decided: null")
    path.write_text(proposed, encoding="utf-8")

    status = parity("accept", "auto-fit/counted", "--by", "@other")

    assert status == ExitCode.OK
    after = path.read_text(encoding="utf-8")
    assert "state: accepted" in after
    assert 'by: "@other"}' in after
    assert [path.name for path in path.parent.iterdir()] == ["counted.md"]


def test_a_refused_acceptance_leaves_the_file_alone(parity: Run, tree: Path) -> None:
    path = tree / "records" / "auto-fit" / "counted.md"
    before = path.read_bytes()

    with pytest.raises(RecordError, match="only a proposed record can be accepted"):
        parity("accept", "auto-fit/counted", "--by", "@other")

    assert path.read_bytes() == before


def test_a_record_follows_the_source_that_it_cites(
    parity: Run, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tree / "engine" / "sample.py"
    source.write_text(source.read_text(encoding="utf-8").replace("42", "43"), encoding="utf-8")
    assert parity("lint") == ExitCode.USAGE
    assert "anchor engine/sample.py::answer changed" in capsys.readouterr().out

    parity("refresh", "auto-fit/counted")

    assert parity("lint") == ExitCode.OK


def test_a_folder_without_upstream_is_refused(tree: Path) -> None:
    parser = argparse.ArgumentParser()
    record.register(parser.add_subparsers(dest="verb", required=True))
    args = parser.parse_args(["record", "lint", "--upstream", str(tree / "engine")])

    with pytest.raises(UsageError, match="there is no folder vllm in it"):
        args.execute(args)


@pytest.mark.parametrize("action", [("new",), ("refresh", "auto-fit/counted")])
def test_a_run_of_two_subjects_is_no_ground_for_a_record(
    parity: Run, tmp_path: Path, run_file: Path, action: tuple[str, ...]
) -> None:
    read = read_run(run_file)
    foreign = tmp_path / "foreign.jsonl"
    header = msgspec.structs.replace(read.header, pin=None, against=OTHER)
    lines = run_file.read_bytes().splitlines(keepends=True)
    foreign.write_bytes(msgspec.json.encode(header) + b"\n" + b"".join(lines[1:]))

    with pytest.raises(UsageError, match="held two subjects against each other") as caught:
        parity(*action, "--from", f"{foreign}#auto-fit/null-block")

    assert caught.value.hint == "run the scenario again without --against"


def test_a_record_of_another_subject_goes_to_its_own_folder_and_is_handled_there(
    parity: Run, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_run(tree, tree / "foreign.jsonl", OTHER)

    parity("new", "--from", f"{path}#auto-fit/null-block")
    told = capsys.readouterr()
    parity("list", "--subject", "other")
    listed = capsys.readouterr().out.split()
    parity("list")
    of_the_engine = capsys.readouterr().out.split()

    assert told.out == "other-records/auto-fit/null-block.md\n"
    assert "`parity record lint --subject other`" in told.err
    text = (tree / "other-records" / "auto-fit" / "null-block.md").read_text(encoding="utf-8")
    assert "profile: counts" in text
    assert "engine/" not in text
    assert (listed[0], of_the_engine[0]) == ("auto-fit/null-block", "auto-fit/counted")


def test_the_lint_of_a_subject_holds_its_records_against_its_profile(
    parity: Run, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(tree / "records", tree / "other-records")

    status = parity("lint", "--subject", str(tree / "subjects" / "other.toml"))

    told = capsys.readouterr().out
    assert status == ExitCode.USAGE
    assert "was measured in the profile 'exact', and its subject is compared in 'counts'" in told
    assert "[other-profile]" in told


def test_a_run_of_a_subject_whose_file_changed_is_no_ground_for_a_record(
    parity: Run, tree: Path, run_file: Path
) -> None:
    file = tree / "subjects" / "engine.toml"
    file.write_text(file.read_text(encoding="utf-8") + "\n", encoding="utf-8")

    with pytest.raises(UsageError, match="the run held engine as its file said then") as caught:
        parity("new", "--from", f"{run_file}#auto-fit/null-block")

    assert "--subject" in (caught.value.hint or "")

"""A subject's file: what it says when it is read, and each mistake in it, one line that says what to do."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from parity.errors import ExitCode, UsageError
from parity.root import CODE_ROOT
from parity.subjects.capabilities import CAPABILITIES
from parity.subjects.subject import DEFAULT, find_subject, load_subject
from tests.parity.subjects.kit import ENGINE, PROCESS, RUNNING, SERVER, changed, written


def test_what_a_file_leaves_out_promises_nothing_and_hides_nothing(tmp_path: Path) -> None:
    loaded = written(tmp_path, PROCESS)

    subject = loaded.subject
    assert (subject.name, subject.levels, subject.suite) == ("mine", ["plan", "schedule"], "0.1")
    assert (subject.mirrors, subject.profile, subject.observes, subject.can) == (None, "exact", {}, ())
    assert (subject.door.stepping, subject.door.serving) == (["process"], [])
    assert loaded.digest == f"sha256:{hashlib.sha256(PROCESS.encode()).hexdigest()}"


def test_records_and_the_folder_of_its_processes_count_from_the_file(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()

    loaded = written(inner, 'folder = ".."\n' + PROCESS)

    assert loaded.folder == tmp_path
    assert loaded.records == inner / "records"
    assert written(tmp_path, PROCESS).folder == tmp_path


def test_the_engine_is_a_subject_that_can_everything_and_promises_parity() -> None:
    loaded = load_subject(find_subject(CODE_ROOT, DEFAULT))

    subject = loaded.subject
    assert (subject.door.stepping, subject.door.serving) == (["inprocess"], ["serve"])
    assert subject.can == tuple(CAPABILITIES)
    assert (subject.mirrors, subject.profile, subject.observes) == ("vllm", "exact", {})
    assert (loaded.records, loaded.folder) == (CODE_ROOT / "records", CODE_ROOT)


def test_totals_need_no_trace_of_the_steps(tmp_path: Path) -> None:
    text = 'capabilities = ["resets"]\n' + PROCESS

    assert written(tmp_path, text).subject.can == ("resets",)
    assert set(written(tmp_path, 'profile = "aggregate"\n' + text).subject.can) == {"resets", "step-trace"}


MISTAKES = [
    (PROCESS, "", "[", "Invalid", "docs/plug-in.md"),
    (PROCESS, '"mine"\nlevels', '"Mine!"\nlevels', "name 'Mine!' is no name", "a-z"),
    (PROCESS, 'name = "mine"\n', "", "missing required field `name`", "docs/plug-in.md"),
    (PROCESS, "suite", "suit", "unknown field `suit`", "docs/plug-in.md"),
    (PROCESS, '"0.1"', '"1"', "suite '1' is no version", '"0.1"'),
    (PROCESS, "door.process", "door.pipe", "unknown field `pipe` - at `$.door`", "docs/plug-in.md"),
    (PROCESS, '["mine"]', "[]", "length >= 1 - at `$.door.process.command`", "docs/plug-in.md"),
    (PROCESS, '["plan", "schedule"]', "[]", "length >= 1 - at `$.levels`", "docs/plug-in.md"),
    (PROCESS, '"schedule"]', '"steps"]', "Invalid enum value 'steps' - at `$.levels[1]`", "docs/plug-in.md"),
    (PROCESS, '"schedule"]', '"serve"]', "level serve has no door", "take serve out of levels"),
    (SERVER, '["serve"]', '["serve", "plan"]', "level plan has no door", "take plan out of levels"),
    (SERVER, '["serve"]', '["plan"]', "level plan has no door", "take plan out of levels"),
    (SERVER, "[door.serve]", "[door]\ninprocess = true\n[door.serve]", "door: inprocess leads to no level", "add"),
    (PROCESS, "[door.process]", "[door]\ninprocess = true\n[door.process]", "inprocess and process are doors", "all but one"),
    (RUNNING, "[door.http]", f"{SERVER[SERVER.index('[door'):]}[door.http]", "serve and http are doors", "all but one"),
    (PROCESS, "suite", 'mirrors = "sglang"\nsuite', "Invalid enum value 'sglang' - at `$.mirrors`", "docs"),
    (PROCESS, "suite", 'profile = "rough"\nsuite', "Invalid enum value 'rough' - at `$.profile`", "docs"),
    (PROCESS, "suite", 'capabilities = ["abort"]\nsuite', "there is no 'abort'", "'aborts'"),
    (PROCESS, "suite", 'capabilities = "some"\nsuite', "`$.capabilities`", "docs/plug-in.md"),
    (PROCESS, "suite", 'observes = {plan = ["stats"]}\nsuite', "plan has no 'stats'", "'status'"),
    (PROCESS, "suite", 'observes = {plan = ["q"]}\nsuite', "plan has no 'q'", "one of: status"),
    (PROCESS, "suite", 'observes = {serve = []}\nsuite', "serve is none of its levels", "add serve to levels"),
    (PROCESS, "suite", 'observes = {plan = ["kind"]}\nsuite', "plan has kind without status", "add status"),
    (PROCESS, "suite", 'observes = {schedule = ["end.kind", "plan.kind"]}\nsuite', "plan.kind without plan.status", "add plan.status"),
    (PROCESS, "suite", 'folder = "absent"\nsuite', "folder 'absent' is no folder", "counts from"),
    (PROCESS, "suite", 'folder = "\\u0000"\nsuite', "folder: a text has a NUL in it", "no command line"),
    (PROCESS, '"records"', '"\\u0000"', "records: a text has a NUL in it", "no command line"),
    (PROCESS, '["mine"]', '["a\\u0000"]', "door.process: command: a text has a NUL in it", "no command line"),
    (PROCESS, '["mine"]', '["a"]\nenvironment = {"A=B" = "c"}', "'A=B' is no variable's name", "without ="),
    (PROCESS, '["mine"]', '["a"]\nenvironment = {A = "\\u0000"}', "environment: a text has a NUL", "no command"),
    (PROCESS, '["mine"]', '["a"]\nstep = 0', "> 0.0 - at `$.door.process.step`", "docs/plug-in.md"),
    (PROCESS, 'process]\ncommand = ["mine"]', 'scheduler-cls]\nclass = "Mine"', "`$.door.scheduler-cls.class`", "docs"),
    (PROCESS, 'process]\ncommand = ["mine"]', 'scheduler-cls]\nclass = "a.B"\npath = ["\\u0000"]', "path: a text has a NUL", "no command"),
    (SERVER, '"{model}", ', "", "door.serve: command has no {model}", "the harness chooses it"),
    (SERVER, "num_blocks", "blocks", "flags: no configuration has blocks", "num_blocks"),
    (SERVER, '"/health"', '"health"', "door.serve: ready: path 'health' is no path", "one /"),
    (RUNNING, '"tiny-opt", ', '"tiny-opt", blocks = 3, ', "unknown field `blocks` - at `$.door.http.config`", "docs"),
    (RUNNING, ", num_blocks = 64", "", "missing required field `num_blocks`", "docs/plug-in.md"),
    (RUNNING, "http://127.0.0.1:8123", "https://a", "`$.door.http.url`", "docs/plug-in.md"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "old", "new", "said", "hint"), MISTAKES)
def test_a_mistake_in_a_file_is_one_line_with_the_next_step(
    text: str, old: str, new: str, said: str, hint: str, tmp_path: Path
) -> None:
    spoilt = changed(text, old, new) if old else text + new

    with pytest.raises(UsageError) as caught:
        written(tmp_path, spoilt)

    assert said in caught.value.message
    assert caught.value.message.startswith(f"{tmp_path}/mine.toml: ")
    assert "\n" not in caught.value.message
    assert hint in str(caught.value.hint)
    assert caught.value.exit_code is ExitCode.USAGE


def test_bytes_that_are_no_text_are_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b"\xff")

    with pytest.raises(UsageError, match="can't decode byte"):
        load_subject(tmp_path / "mine.toml")


def test_each_file_that_is_sound_is_read(tmp_path: Path) -> None:
    doors = [written(tmp_path, text).subject.door for text in (PROCESS, SERVER, RUNNING, ENGINE)]

    assert [[*door.stepping, *door.serving] for door in doors] == [
        ["process"],
        ["serve"],
        ["http"],
        ["inprocess"],
    ]


def test_a_subject_is_found_by_name_or_by_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "subjects").mkdir()
    (tmp_path / "subjects" / "toy.toml").write_text(PROCESS)
    monkeypatch.chdir(tmp_path)

    assert find_subject(tmp_path, "toy") == tmp_path / "subjects" / "toy.toml"
    assert find_subject(CODE_ROOT, "subjects/toy.toml") == tmp_path / "subjects" / "toy.toml"
    with pytest.raises(UsageError, match="no subject 'tou' in subjects/") as misspelt:
        find_subject(tmp_path, "tou")
    assert "'toy'" in str(misspelt.value.hint)
    with pytest.raises(UsageError, match=r"there is no subject file toy\.toml"):
        find_subject(tmp_path, "toy.toml")
    with pytest.raises(UsageError, match="No such file"):
        load_subject(tmp_path / "gone.toml")

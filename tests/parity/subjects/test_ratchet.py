"""The ratchet: what a subject once showed is shown on, and what is undecided only becomes less."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parity.errors import UsageError
from parity.subjects import ratchet_git
from parity.subjects.doors import Doors
from parity.subjects.ratchet import Ratchet, Standing, compare
from parity.subjects.ratchet_git import hold
from parity.subjects.subject import Subject, load_subject
from tests.parity.subjects.adopt_newcomer import Newcomer, newcomer

__all__ = ["newcomer"]

Hold = Callable[..., Ratchet]


def subject(**changes: Any) -> Subject:
    values: dict[str, Any] = {
        "name": "x",
        "door": Doors(inprocess=True),
        "levels": ["plan", "schedule"],
        "records": "records",
        "suite": "0.1",
        "capabilities": ["aborts", "resets"],
        "observes": {"plan": ["status", "num_blocks"]},
        "profile": "renamed",
    }
    return Subject(**(values | changes))


def lines(before: Subject, now: Subject) -> tuple[str, ...]:
    return compare(Standing(before, ()), Standing(now, ()), "then").red


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"capabilities": ["resets"]}, "capability aborts was there at then, and is gone"),
        ({"levels": ["schedule"], "observes": {}}, "level plan was there at then, and is gone"),
        ({"observes": {"plan": ["status"]}}, "field num_blocks of level plan was there at then, and is gone"),
        ({"profile": "counts"}, "profile counts is coarser than renamed, which it was at then"),
    ],
)
def test_each_thing_that_is_gone_is_one_line(changes: dict[str, Any], said: str) -> None:
    assert lines(subject(), subject(**changes)) == (said,)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"capabilities": "all"},
        {"levels": ["plan", "schedule", "serve"]},
        {"observes": {}},
        {"observes": {"plan": ["num_blocks", "status", "usable_blocks"]}},
        {"profile": "exact"},
    ],
)
def test_more_than_was_there_is_never_red(changes: dict[str, Any]) -> None:
    assert lines(subject(), subject(**changes)) == ()


def test_what_was_lost_stands_first_and_what_is_lost_of_other_levels_is_told_too() -> None:
    before = subject(observes={"schedule": ["end.kind", "end.outputs", "steps.free"]})
    now = subject(levels=["schedule"], observes={"schedule": ["end.kind", "end.outputs"]})

    assert lines(before, now) == (
        "level plan was there at then, and is gone",
        "field steps.free of level schedule was there at then, and is gone",
    )
    assert Ratchet(("first", "second"), "last").lines == [
        "ratchet: first",
        "ratchet: second",
        "ratchet: last",
    ]


def test_a_level_that_was_seen_whole_and_is_seen_in_part_lost_the_rest() -> None:
    found = lines(subject(observes={}), subject(observes={"plan": ["status", "num_blocks"]}))

    assert "field usable_blocks of level plan was there at then, and is gone" in found
    assert not any("num_blocks" in line or "status" in line for line in found)


def test_every_capability_that_all_stood_for_is_held() -> None:
    found = lines(subject(capabilities="all"), subject(capabilities=["aborts"]))

    assert "capability resets was there at then, and is gone" in found
    assert not any("capability aborts" in line for line in found)


@pytest.mark.parametrize(
    ("before", "now", "suite", "is_red"),
    [
        (["0.1", "0.1"], ["0.1"], "0.1", False),
        (["0.1"], ["0.1"], "0.1", False),
        (["0.1"], ["0.1", "0.1"], "0.1", True),
        (["0.1"], ["0.1", None], "0.1", True),
        (["0.1"], ["0.1", "0.2"], "0.2", False),  # taken up with a newer suite
        (["0.1"], ["0.1", "0.2"], "0.1", True),  # claimed for a suite that the subject does not answer for
        (["0.1"], ["0.1", "0.1", "0.2"], "0.2", True),
        (["0.1"], ["0.1", "0.10"], "0.10", False),  # numbers, not texts
        (None, ["0.1", "0.1"], "0.1", False),  # there were no records: their number begins here
    ],
)
def test_the_undecided_only_become_fewer_but_for_those_of_a_newer_suite(
    before: list[str | None] | None, now: list[str | None], suite: str, *, is_red: bool
) -> None:
    was = None if before is None else tuple(before)

    found = compare(Standing(subject(), was), Standing(subject(suite=suite), tuple(now)), "then").red

    assert bool(found) == is_red
    for line in found:
        assert f"{len(was or ())} at then: their number may only fall" in line


def test_a_newer_baseline_whose_suite_is_not_raised_says_what_to_do() -> None:
    (line,) = compare(Standing(subject(), ()), Standing(subject(), ("0.2",)), "then").red

    assert line.endswith("(of 1 the suite is newer than 0.1: raise `suite` in the subject's file)")


@pytest.fixture
def git(tmp_path: Path) -> Callable[..., str]:
    """Git in the newcomer's folder, as nobody's own settings have it."""
    folder = tmp_path / "theirs"
    names = {
        f"GIT_{who}_{what}": "x@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    nobody = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(tmp_path)}

    def run(*words: str, folder: Path = folder) -> str:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            env={**os.environ, **names, **nobody},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return done.stdout.strip()

    return run


@pytest.fixture
def branched(newcomer: Newcomer, git: Callable[..., str]) -> Newcomer:
    """The newcomer with a baseline on main, on a branch of its own."""
    newcomer.plant(free="preemption/")
    newcomer.parity("adopt")
    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-qm", "a baseline")
    git("checkout", "-qb", "work")
    return newcomer


@pytest.fixture
def held(newcomer: Newcomer) -> Hold:
    def hold_it(base: str | None = None) -> Ratchet:
        return hold(newcomer.root, load_subject(newcomer.file), base)

    return hold_it


def test_what_did_not_change_since_the_merge_base_is_silent(branched: Newcomer, held: Hold) -> None:
    assert branched.written()
    assert held() == Ratchet()


def test_a_lost_capability_turns_a_green_check_red_in_its_report_and_for_scripts(
    branched: Newcomer, git: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert branched.check() == 0
    branched.rewrite(
        'capabilities = "all"', 'capabilities = ["forced-tokens", "step-trace", "auto-fit", "priority"]'
    )
    capsys.readouterr()

    code = branched.check()
    told = capsys.readouterr().out
    branched.parity("check", "--json")
    shown = json.loads(capsys.readouterr().out)

    base = git("rev-parse", "main")[:12]
    line = f"capability aborts was there at the merge base {base}, and is gone"
    assert code == 1
    assert f"ratchet: {line}\n" in told
    assert line in shown["ratchet"]["red"]


def test_one_more_undecided_record_is_red_and_one_fewer_is_not(branched: Newcomer, held: Hold) -> None:
    texts = sorted(branched.records.rglob("*.md"))
    first = texts[0].read_text(encoding="utf-8")
    beside = texts[0].with_name("one-more.md")

    beside.write_text(first, encoding="utf-8")
    (more,) = held().red
    beside.unlink()
    texts[0].write_text(first.replace("decision: undecided", "decision: mirror"), encoding="utf-8")

    assert more.startswith(f"{len(texts) + 1} undecided records, {len(texts)} at the merge base ")
    assert held().red == ()


def test_records_that_moved_are_held_against_where_they_were(branched: Newcomer, held: Hold) -> None:
    (branched.folder / "decided").rename(branched.folder / "elsewhere")
    branched.rewrite('records = "decided"', 'records = "elsewhere"')
    assert held().red == ()

    name = next((branched.folder / "elsewhere").rglob("*.md"))
    name.with_name("one-more.md").write_bytes(name.read_bytes())

    assert len(held().red) == 1


def test_the_base_may_be_named_and_main_may_have_moved_on(
    branched: Newcomer, git: Callable[..., str], held: Hold
) -> None:
    git("checkout", "-q", "main")
    branched.rewrite('suite = "0.1"', 'suite = "0.1"\nprofile = "counts"')
    git("commit", "-qam", "main became coarser after the branch left it")
    git("branch", "release")
    git("checkout", "-q", "work")
    branched.rewrite('suite = "0.1"', 'suite = "0.1"\nprofile = "renamed"')

    (line,) = held("release").red

    assert line.startswith("profile renamed is coarser than exact, which it was at the merge base ")


def test_a_subject_that_was_not_there_begins_here(branched: Newcomer, git: Callable[..., str]) -> None:
    other = branched.file.with_name("other.toml")
    other.write_text(branched.file.read_text(encoding="utf-8"), encoding="utf-8")
    base = git("rev-parse", "main")[:12]

    ratchet = hold(branched.root, load_subject(other))

    assert ratchet == Ratchet(
        note=f"held against nothing: there is no other.toml at the merge base {base}, so it begins here"
    )


def test_a_file_that_this_version_cannot_read_begins_here(
    branched: Newcomer, git: Callable[..., str], held: Hold
) -> None:
    now = branched.file.read_text(encoding="utf-8")
    branched.file.write_text("levels = 3", encoding="utf-8")
    git("commit", "-qam", "nonsense")
    branched.file.write_text(now, encoding="utf-8")

    ratchet = held("work")

    assert ratchet.red == ()
    assert "is none that this version reads" in (ratchet.note or "")


def test_outside_git_it_is_one_line_and_not_red(
    newcomer: Newcomer, capsys: pytest.CaptureFixture[str]
) -> None:
    newcomer.parity("adopt")
    capsys.readouterr()

    code = newcomer.check()

    (line,) = [row for row in capsys.readouterr().out.splitlines() if row.startswith("ratchet: ")]
    assert code == 0
    assert line.startswith("ratchet: held against nothing: ")
    assert "not a git repository" in line


def test_without_a_main_it_is_one_line_and_with_a_wrong_base_a_mistake(
    branched: Newcomer, git: Callable[..., str], held: Hold
) -> None:
    git("branch", "-m", "main", "trunk")

    assert held() == Ratchet(
        note="held against nothing: there is no origin/main and no main in this clone (--base REF names it)"
    )
    assert held("trunk") == Ratchet()
    with pytest.raises(UsageError, match="--base mian names no commit here"):
        held("mian")
    assert branched.parity("check", "--base", "mian") == 64
    assert branched.parity("check", "--base=--help") == 64


def test_a_clone_too_shallow_to_have_the_base_is_one_line(
    branched: Newcomer, git: Callable[..., str], tmp_path: Path
) -> None:
    (branched.folder / "more").write_text("x")
    git("add", "-A")
    git("commit", "-qm", "more")
    shallow = tmp_path / "shallow"
    git("clone", "-q", "--depth", "1", "--branch", "work", f"file://{branched.folder}", str(shallow))
    loaded = load_subject(shallow / branched.file.name)

    without = hold(branched.root, loaded)
    named = hold(branched.root, loaded, "main")
    git("fetch", "-q", "--depth", "1", "origin", "main:main", folder=shallow)
    apart = hold(branched.root, loaded)

    assert "there is no origin/main and no main in this clone" in (without.note or "")
    assert "there is no main in this clone" in (named.note or "")
    assert "HEAD and main have no commit in common in this clone" in (apart.note or "")
    assert (without.red, named.red, apart.red) == ((), (), ())


def test_a_hook_of_gits_changes_nothing(
    branched: Newcomer, held: Hold, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert branched.written()
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "another.git"))
    monkeypatch.setenv("GIT_INDEX_FILE", "index")

    assert held() == Ratchet()


@pytest.mark.parametrize(
    ("script", "said"),
    [("import time; time.sleep(60)", "did not answer within 0.5 s"), (None, "there is no git here")],
)
def test_a_git_that_hangs_or_is_not_there_is_one_line(
    newcomer: Newcomer,
    held: Hold,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    script: str | None,
    said: str,
) -> None:
    assert newcomer.file.is_file()
    folder = tmp_path / "bin"
    folder.mkdir()
    if script is not None:
        (folder / "git").write_text(f"#!{sys.executable}\n{script}\n")
        (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(ratchet_git, "SECONDS", 0.5)

    assert said in (held().note or "")


def test_another_choice_or_two_subjects_are_no_claim_to_hold(
    newcomer: Newcomer, capsys: pytest.CaptureFixture[str]
) -> None:
    code = newcomer.parity("check", "--base", "main", "--against", str(newcomer.file))

    assert code == 64
    assert "leave it out" in capsys.readouterr().err

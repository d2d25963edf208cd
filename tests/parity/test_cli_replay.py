"""`parity replay`: FIXED, FAILED or VOID of files that keep a finding, and its exit codes."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.driver import observe
from parity.fuzz.found import Found, found_text, read_found
from parity.fuzz.log import UnitLine, Writer
from parity.fuzz.unit import Find
from tests.parity.fuzz import planted
from tests.parity.fuzz.files import clone, faulty, run, shrunk_text, small, stuck
from tests.parity.fuzz.test_log import header
from tests.parity.fuzz.test_tally import done

__all__ = ["clone", "faulty", "shrunk_text", "small"]


def test_replay_says_that_it_still_shows(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run("replay", str(small))

    found = read_found(small)
    assert code == 1
    assert capsys.readouterr().out.startswith(
        f"FAILED  {small}: {found.fingerprint} still shows at {found.at}: oracle "
    )


def test_replay_says_that_it_is_fixed(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted.use(monkeypatch, None)

    code = run("replay", str(small), "--json")

    said = json.loads(capsys.readouterr().out)
    assert code == 0
    assert said["counts"] == {"FIXED": 1}
    assert said["replays"][0]["detail"] == f"{read_found(small).fingerprint} no longer shows"


def test_replay_names_the_record_that_covers_it_now(faulty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run("replay", str(stuck(faulty.with_name("stuck.yaml"))))

    assert code == 0
    assert (
        "still shows, and the record preemption/sole-request-waits-for-ever covers it"
        in capsys.readouterr().out
    )


def test_replay_says_what_shows_in_its_place(faulty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = stuck(faulty.with_name("stuck.yaml"), fingerprint="f1:0000000000000000")

    assert run("replay", str(path)) == 0
    said = "f1:0000000000000000 no longer shows, f1:2add85e2ca52c437 shows and is on record"
    assert said in capsys.readouterr().out


def test_what_is_new_in_the_place_of_what_is_fixed_is_no_success(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = read_found(small)
    path = small.with_name("other.yaml")
    path.write_text(
        found_text(msgspec.structs.replace(found, fingerprint="f1:0000000000000000", pin="0.1.0"))
    )

    assert run("replay", str(path)) == 1
    said = f"FIXED  {path}: f1:0000000000000000 no longer shows, NEW {found.fingerprint} shows"
    assert capsys.readouterr().out == f"{said} (found on vLLM 0.1.0, played on 0.27.1)\n"


def test_a_find_of_a_hunts_log_is_replayed(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = read_found(small)
    shared = {
        field: getattr(kept, field) for field in Find.__struct_fields__ if field in Found.__struct_fields__
    }
    drawn = Find(**shared | {"unit": 0, "ordinal": 0}, document=kept.scenario)
    with Writer(small.with_name("hunt"), header()) as writer:
        writer.put(UnitLine(done(0, drawn)))

    assert run("replay", f"{writer.path}#{kept.fingerprint}") == 1
    assert capsys.readouterr().out.startswith(
        f"FAILED  {writer.path}#{kept.fingerprint}: {kept.fingerprint} still"
    )


def test_a_side_that_fails_is_void_and_wins_over_what_still_shows(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted.use(monkeypatch, lambda patch: patch.setattr("parity.engine_side.observe", _raise))
    failed = stuck(small.with_name("void.yaml"), fingerprint="void:subject", attribution=None)

    code = run("replay", str(small), str(failed))

    lines = capsys.readouterr().out.splitlines()
    assert code == 2
    assert [line.split()[0] for line in lines] == ["VOID", "FAILED"]


def _raise(*_: object) -> None:
    raise ZeroDivisionError


def test_a_side_that_disagreed_with_itself_is_played_until_it_can_show(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plays = itertools.count()

    def unsteady(scenario: Any, policies: Any) -> Any:
        seen = observe(scenario, policies)
        seen["end"]["outputs"][0][1] += next(plays) % 2
        return seen

    planted.use(monkeypatch, lambda patch: patch.setattr("parity.engine_side.observe", unsteady))
    kept = stuck(small.with_name("flaky.yaml"), fingerprint="flaky:subject", attribution=None)

    assert run("replay", str(kept)) == 1
    assert capsys.readouterr().out.startswith("FAILED")


def test_all_that_is_kept_is_played(small: Path, clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = clone / "runs" / "found"
    folder.mkdir(parents=True)
    small.rename(folder / "a.yaml")
    stuck(folder / "b.yaml")

    code = run("replay", "--all")

    assert code == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["FAILED  runs/found/a.yaml", "FIXED  runs/found/b.yaml"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 64, "give files or --all, one of them"),
        (["--all", "x.yaml"], 64, "give files or --all, one of them"),
        (["--all"], 2, "nothing is kept in runs/found"),
        (["x.yaml"], 64, "x.yaml: cannot be read"),
        (
            ["parity/scenarios/auto-fit/null-block.yaml"],
            64,
            "is a scenario, and no found file — `parity run`",
        ),
        (["hunt.jsonl#f1:0123456789abcdef"], 64, "hunt.jsonl: is not there"),
    ],
)
def test_what_cannot_be_replayed_is_one_line(
    clone: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    assert clone.is_dir()
    assert run("replay", *arguments) == code
    assert said in capsys.readouterr().err.splitlines()[-1]

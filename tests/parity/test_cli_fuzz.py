"""`parity fuzz` from the command line: what it refuses, what it joins, what it finds, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from parity.cli import main as command
from parity.cli.hunting import Spans, where_the_time_went
from parity.fuzz.log import FindLine, UnitLine, Writer
from parity.fuzz.unit import Reduced
from tests.parity.fuzz.test_log import header
from tests.parity.fuzz.test_tally import done, find
from tests.parity.fuzz.twins import frees_in_reverse

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def out_of_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Whatever a hunt keeps goes to a folder of the test's."""

    def placed(_root: Path, fingerprint: str) -> Path:
        return tmp_path / "found" / f"{fingerprint[3:]}.yaml"

    monkeypatch.setattr("parity.fuzz.found.found_path", placed)
    return tmp_path


def fuzz(*arguments: str) -> int:
    return command.main(["fuzz", *arguments])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--level", "kernel"], "invalid choice: 'kernel'"),
        (["--seed", "-1"], "takes a whole number, not '-1'"),
        (["--max-time", "0"], "takes a number of seconds above 0, not '0'"),
        (["--max-time", "nan"], "takes a number of seconds above 0, not 'nan'"),
        (["--jobs", "0"], "takes a whole number of at least 1, not '0'"),
        (["--shard", "3/2"], "takes i/n with 1 <= i <= n, such as 2/4, not '3/2'"),
        (["--shard", "0/2"], "takes i/n"),
        (["--scenarios", "10", "--max-time", "5"], "not allowed with argument"),
        *[
            (["--cluster", address], f"takes an address such as tcp://HOST:8786, not {address!r}")
            for address in (
                "foo",
                "tcp://",
                "tcp://host",
                "tcp://host:",
                "host:0",
                "host:65536",
                "ftp://host:1",
            )
        ],
        (["--out", ""], "argument --out: takes a path, and not nothing"),
        (["--merge", ""], "argument --merge: takes a path, and not nothing"),
        (["stray"], "parity fuzz: unrecognized arguments: stray — see 'parity fuzz --help'"),
    ],
)
def test_what_cannot_be_meant_is_one_line(arguments: list[str], message: str, capsys: Captured) -> None:
    with pytest.raises(SystemExit) as stop:
        fuzz(*arguments)

    error = capsys.readouterr().err
    assert stop.value.code == 64
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--merge", "nowhere"], "there is no hunt in nowhere"),
        (["--merge", "nowhere", "--seed", "1"], "--merge plays nothing, so --seed has no part in it"),
        (["--merge", "nowhere", "--max-time", "9"], "so --max-time has no part in it"),
        (["--cluster", "tcp://127.0.0.1:9", "--jobs", "2"], "--jobs is for this machine"),
        (["--policy", "null-block-capacity=maybe"], "null-block-capacity"),
    ],
)
def test_what_does_not_go_together_is_one_line(arguments: list[str], message: str, capsys: Captured) -> None:
    assert fuzz(*arguments) == 64

    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("below", ["", "/deeper/still"])
def test_a_hunts_folder_that_is_a_file_is_one_line(below: str, tmp_path: Path, capsys: Captured) -> None:
    """Before anything is started."""
    (tmp_path / "plain").write_text("precious")

    assert fuzz("--out", f"{tmp_path}/plain{below}") == 64

    error = capsys.readouterr().err
    assert error == (
        f"parity: --out {tmp_path}/plain{below}: {tmp_path}/plain is no folder"
        " — name a folder that is new or empty\n"
    )
    assert (tmp_path / "plain").read_text() == "precious"


@pytest.mark.parametrize(
    ("spans", "asked", "line"),
    [
        (Spans(8.0, 12.0, 0.0), 60.0, "of 20.0 s: 8.0 s until the first unit began, 12.0 s of units"),
        (
            Spans(8.0, 12.0, 4.5),
            None,
            "of 24.5 s: 8.0 s until the first unit began, 12.0 s of units, 4.5 s of shrinking",
        ),
        (
            Spans(26.0, 4.0, 0.0),
            10.0,
            "of 30.0 s: 26.0 s until the first unit began, 4.0 s of units"
            " (--max-time 10 bounds what is begun, not what is under way)",
        ),
    ],
)
def test_the_report_says_where_the_time_went(spans: Spans, asked: float | None, line: str) -> None:
    assert where_the_time_went(spans, asked) == line


def test_a_cluster_that_does_not_answer_leaves_nothing(
    out_of_the_way: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parity.cli.hunting.measure_oracle", lambda _root, pin: pin)

    code = fuzz("--cluster", "127.0.0.1:9", "--out", str(out_of_the_way / "hunt"))

    last = capsys.readouterr().err.splitlines()[-1]
    assert code == 2
    assert "no Dask scheduler answers at 127.0.0.1:9: Connection refused" in last
    assert not (out_of_the_way / "hunt").exists()


def parts(folder: Path) -> list[str]:
    """Two shards of one hunt; the second also did unit 0 again, and found what the first did."""
    first = Writer(folder / "one", header(shard=(1, 2)))
    first.put(UnitLine(done(0)))
    first.put(UnitLine(done(2, find("f1:00000000000000aa", 2))))
    first.put(FindLine(Reduced(_playable("f1:00000000000000aa", 2), 5, None)))
    second = Writer(folder / "two", header(shard=(2, 2)))
    second.put(UnitLine(done(1)))
    second.put(UnitLine(done(0)))
    second.put(FindLine(Reduced(_playable("f1:00000000000000aa", 2), 5, None)))
    first.close()
    second.close()
    return [str(folder / "one"), str(folder / "two")]


def _playable(fingerprint: str, unit: int) -> Any:
    import msgspec

    document = {
        "level": "schedule",
        "config": {"model": "opt-125m"},
        "requests": [{"id": "r0", "prompt": 1, "max_tokens": 1}],
    }
    return msgspec.structs.replace(find(fingerprint, unit), document=document)


def test_shards_are_joined_and_nothing_counts_twice(out_of_the_way: Path, capsys: Captured) -> None:
    assert fuzz("--merge", *parts(out_of_the_way), "--json") == 1

    shown = json.loads(capsys.readouterr().out)
    assert shown["units"] == 3
    assert shown["scenarios"] == 30
    assert shown["known"] == {"preemption/decided": {"findings": 3, "behind": 0}}
    assert [one["fingerprint"] for one in shown["finds"]] == ["f1:00000000000000aa"]
    assert shown["not_shrunk"] == 0


def test_what_is_missing_of_a_joined_hunt_is_named(out_of_the_way: Path, capsys: Captured) -> None:
    for place, units in ((1, (0, 6)), (3, (2, 8))):
        writer = Writer(out_of_the_way / str(place), header(shard=(place, 3)))
        for index in units:
            writer.put(UnitLine(done(index)))
        writer.close()
    folders = [str(out_of_the_way / place) for place in ("1", "3")]

    assert fuzz("--merge", *folders) == 0
    told = capsys.readouterr().out
    assert "shards 1/3 and 3/3" in told
    assert "missing: shard 2/3" in told
    assert "5 units below the last in none of the parts: 1, 3, 4, 5, 7" in told
    assert "s of all jobs together" in told

    assert fuzz("--merge", *folders, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["missing_shards"], shown["missing_units"]) == (["2/3"], [1, 3, 4, 5, 7])
    assert shown["seconds"]["wall"] == pytest.approx(4 * done(0).spent.whole)

    for again in (f"{folders[0]}/", f"{folders[0]}/hunt.jsonl"):
        assert fuzz("--merge", folders[0], again) == 64
        assert "is given twice" in capsys.readouterr().err


def test_a_hunt_that_was_cut_in_two_ways_has_no_shard_missing(out_of_the_way: Path, capsys: Captured) -> None:
    """A half, and the other half in quarters, of which the unit 3 is not done."""
    for shard, unit in (((1, 2), 4), ((2, 4), 1), ((4, 4), 7)):
        with Writer(out_of_the_way / str(unit), header(shard=shard)) as writer:
            for index in range(shard[0] - 1, unit + 1, shard[1]):
                if index != 3:
                    writer.put(UnitLine(done(index)))

    fuzz("--merge", *(str(out_of_the_way / name) for name in ("4", "1", "7")), "--json")

    shown = json.loads(capsys.readouterr().out)
    assert (shown["missing_shards"], shown["missing_units"]) == ([], [3, 5, 6])


def test_a_find_that_only_a_log_has_is_told_with_its_log(out_of_the_way: Path, capsys: Captured) -> None:
    with Writer(out_of_the_way / "one", header(shard=(1, 2))) as writer:
        writer.put(UnitLine(done(0)))
    with Writer(out_of_the_way / "two", header(shard=(2, 2))) as writer:
        writer.put(UnitLine(done(1, _playable("f1:00000000000000aa", 1))))

    assert fuzz("--merge", str(out_of_the_way / "one"), str(out_of_the_way / "two")) == 1
    said = f"    parity shrink {writer.path}#f1:00000000000000aa"
    assert said in capsys.readouterr().out.splitlines()


def test_a_joined_hunt_without_finds_is_green(out_of_the_way: Path, capsys: Captured) -> None:
    writer = Writer(out_of_the_way / "one", header())
    writer.put(UnitLine(done(0)))
    writer.close()

    assert fuzz("--merge", str(out_of_the_way / "one")) == 0
    assert "nothing new" in capsys.readouterr().out


def test_a_hunt_of_nothing_concludes_nothing(out_of_the_way: Path, capsys: Captured) -> None:
    Writer(out_of_the_way / "one", header()).close()

    assert fuzz("--merge", str(out_of_the_way / "one")) == 2
    assert "nothing was played" in capsys.readouterr().out


@pytest.mark.oracle
def test_a_planted_fault_is_found_and_shrunk_to_two_requests(
    out_of_the_way: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    frees_in_reverse(monkeypatch)

    code = fuzz(
        "--level", "schedule", "--seed", "7", "--jobs", "1", "--json", "--out", str(out_of_the_way / "hunt")
    )

    shown = json.loads(capsys.readouterr().out)
    ours = [one for one in shown["finds"] if one["attribution"] == "ours"]
    assert code == 1
    assert ours
    assert ours[0]["requests"] <= 2
    kept = {path.stem for path in (out_of_the_way / "found").glob("*.yaml")}
    assert kept == {one["fingerprint"][3:] for one in shown["finds"]}
    seconds = shown["seconds"]
    assert seconds["starting"] > 0 < seconds["shrinking"]
    parts = seconds["starting"] + seconds["hunting"] + seconds["shrinking"]
    assert parts == pytest.approx(seconds["wall"], abs=0.5)

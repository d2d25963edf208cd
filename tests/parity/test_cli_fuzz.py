"""`parity fuzz` from the command line: what it refuses, what it joins, what it finds, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from parity.cli import main as command
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


def test_a_cluster_that_does_not_answer_leaves_nothing(
    out_of_the_way: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parity.fuzz.cluster.CONNECT_SECONDS", 1)
    monkeypatch.setattr("parity.cli.hunting.measure_oracle", lambda _root, pin: pin)

    code = fuzz("--cluster", "127.0.0.1:9", "--out", str(out_of_the_way / "hunt"))

    error = capsys.readouterr().err
    assert code == 2
    assert "no Dask scheduler answers at 127.0.0.1:9: " in error
    assert error.count("\n") == 1
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


def test_what_is_joined_and_what_is_missing_is_named(out_of_the_way: Path, capsys: Captured) -> None:
    """Of three shards the third is not there, and of the first the unit 3. A unit takes 1.0 + 2.5 + 0.5 s."""
    for number, indexes in ((1, (0, 6)), (2, (1, 4))):
        with Writer(out_of_the_way / str(number), header(shard=(number, 3))) as writer:
            for index in indexes:
                writer.put(UnitLine(done(index)))

    folders = [str(out_of_the_way / name) for name in ("1", "2", "1")]
    assert fuzz("--merge", *folders) == 0

    said = capsys.readouterr().out.splitlines()
    assert said[0].endswith("seed 7")
    assert said[1:4] == [
        "joined: shard 1/3 (2 units, the last 6), shard 2/3 (2 units, the last 4)",
        "missing: shard 3/3",
        "missing below unit 6: unit 3",
    ]
    assert said[4].startswith("40 scenarios in 4 units, 16.0 s of work (2 a second and job, ")
    assert "start-up" not in "".join(said)

    fuzz("--merge", *folders, "--json")
    shown = json.loads(capsys.readouterr().out)
    assert shown["missing"] == {"shards": [[3, 3]], "units": [3]}
    assert shown["joined"][0] == {"shard": [1, 3], "units": 2, "last": 6}
    assert (shown["seconds"]["wall"], shown["seconds"]["jobs"]) == (None, None)
    assert shown["seconds"]["making"] == 4.0


def test_one_shard_keeps_its_label(out_of_the_way: Path, capsys: Captured) -> None:
    with Writer(out_of_the_way / "one", header(shard=(2, 4))) as writer:
        writer.put(UnitLine(done(1)))

    fuzz("--merge", str(out_of_the_way / "one"))

    assert capsys.readouterr().out.splitlines()[0].endswith("seed 7, shard 2/4")


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

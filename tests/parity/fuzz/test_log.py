"""A hunt's log: written as it comes, read back whole or cut short, joined with its other parts only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from parity.errors import RunFileError, UsageError
from parity.fuzz.log import FORMAT, FindLine, Header, Log, UnitLine, Writer, check_parts, is_log, read_log
from parity.fuzz.unit import Reduced
from parity.runlog import Pin
from tests.parity.fuzz.test_tally import done, find


def header(**changes: Any) -> Header:
    values: dict[str, Any] = {
        "format": FORMAT,
        "pin": Pin(name="vllm-0.27.1", version="0.27.1", measured="0.27.1"),
        "commit": "c0ffee",
        "dirty": False,
        "machine": "a machine",
        "records": "sha256:0",
        "model_runner": "v1",
        "level": "schedule",
        "seed": 7,
        "size": 10,
        "policies": {},
        "shard": (1, 2),
    }
    return Header(**{**values, **changes})


def written(folder: Path) -> Path:
    writer = Writer(folder, header())
    writer.put(UnitLine(done(0, find("f1:a", 0))))
    writer.put(UnitLine(done(2)))
    writer.put(FindLine(Reduced(find("f1:a", 0), 12, None)))
    writer.close()
    return writer.path


def test_what_was_written_is_read(tmp_path: Path) -> None:
    written(tmp_path / "hunt")

    log = read_log(tmp_path / "hunt")

    assert log.header == header()
    assert [one.unit.index for one in log.units] == [0, 2]
    assert [(one.find.fingerprint, one.attempts) for one in log.finds] == [("f1:a", 12)]


def test_a_hunt_that_was_cut_short_has_what_it_had(tmp_path: Path) -> None:
    path = written(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rindex(b'{"line":"find"') - 20])

    assert [one.unit.index for one in read_log(tmp_path).units] == [0]


def test_a_folder_that_has_a_hunt_is_left_alone(tmp_path: Path) -> None:
    before = written(tmp_path).read_bytes()

    with pytest.raises(UsageError, match=r"exists already — name another folder with --out"):
        Writer(tmp_path, header())

    assert (tmp_path / "hunt.jsonl").read_bytes() == before


def test_a_hunt_that_an_error_ends_before_anything_was_done_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()

    for folder in (tmp_path / "new", tmp_path / "mine"):
        with pytest.raises(OSError, match="no scheduler"), Writer(folder, header()):
            raise OSError("no scheduler")

    assert list(tmp_path.rglob("*")) == [tmp_path / "mine"]


@pytest.mark.parametrize(("units", "error"), [(1, OSError), (0, KeyboardInterrupt)])
def test_what_was_done_stays_however_the_hunt_ends(
    tmp_path: Path, units: int, error: type[BaseException]
) -> None:
    def hunt() -> None:
        with Writer(tmp_path, header()) as writer:
            for index in range(units):
                writer.put(UnitLine(done(index)))
            raise error

    with pytest.raises(error):
        hunt()

    assert len(read_log(tmp_path).units) == units


def test_a_log_is_told_by_what_it_begins_with(tmp_path: Path) -> None:
    path = written(tmp_path / "hunt")
    other = tmp_path / "run.jsonl"
    other.write_text('{"line":"header"}\n')

    moved = path.rename(tmp_path / "moved.jsonl")

    assert is_log(moved)
    assert not is_log(other)
    assert not is_log(tmp_path / "hunt")
    assert not is_log(tmp_path / "absent")


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (None, UsageError, "there is no hunt in"),
        (b"", RunFileError, r":1: is no hunt \(its first line is no header\)"),
        (b"{}\n", RunFileError, ":1: is no line of a hunt"),
        (b"what\n", RunFileError, ":1: is no line of a hunt"),
        (msgspec.json.encode(header(format=FORMAT + 1)) + b"\n", RunFileError, "hunt format 2, not 1"),
        (msgspec.json.encode(UnitLine(done(0))) + b"\n", RunFileError, "its first line is no header"),
    ],
)
def test_a_file_that_is_no_hunts_is_told_in_one_line(
    tmp_path: Path, content: bytes | None, error: type[Exception], message: str
) -> None:
    if content is not None:
        (tmp_path / "hunt.jsonl").write_bytes(content)

    with pytest.raises(error, match=message):
        read_log(tmp_path)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"seed": 8}, "its seed is 8, and not 7"),
        ({"commit": "beef"}, "its commit is beef, and not c0ffee"),
        ({"level": "plan"}, "its level is plan, and not schedule"),
        ({"policies": {"a": "b"}}, "its policies is"),
        ({"size": 11}, "its size is 11, and not 10"),
    ],
)
def test_another_hunt_is_no_part(change: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=f"b is no part of the hunt in a: {why}"):
        check_parts([Log(header(), (), ()), Log(header(**change), (), ())], ["a", "b"])


def test_another_shard_and_another_machine_are_parts() -> None:
    other = header(shard=(2, 2), machine="another")

    check_parts([Log(header(), (), ()), Log(other, (), ())], ["a", "b"])

    assert header().question == other.question

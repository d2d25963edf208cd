"""The golden lines: what they must show, that they are upstream's, and that a reader without Python can replay them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from parity.errors import HarnessError
from parity.observation import Observation, PlanError, Schedule, plain
from parity.root import CODE_ROOT
from parity.scenario import Case
from parity.schemas import documents
from parity.subjects import golden_record
from parity.subjects.adapter import stepping
from parity.subjects.capabilities import OF_LEVELS, missing
from parity.subjects.fields import FIELDS
from parity.subjects.golden import FOLDER, LEVELS, chosen, load_golden, text
from parity.subjects.smoke import is_told
from parity.subjects.subject import load_subject
from tests.parity.zoo.kit import GOLDEN, SUITE, Golden

REPLAY = CODE_ROOT / "examples" / "golden-replay" / "replay.mjs"
NEVER_THERE = {"schedule": {"plan.estimated_max_model_len"}}  # a length at which nothing fits has no estimate


def of_level(level: str) -> list[Golden]:
    return [item for item in GOLDEN.values() if item.scenario.level == level]


def test_they_are_the_chosen_scenarios_as_the_suite_has_them() -> None:
    cases = {case.id: case for case in SUITE(CODE_ROOT)}

    assert sorted(GOLDEN) == sorted(chosen())
    for item in GOLDEN.values():
        assert item.scenario == cases[item.id].scenario, "run `make golden`"
        assert item.needs == missing(cases[item.id], ())


@pytest.mark.parametrize("name", OF_LEVELS["schedule"])
def test_every_capability_is_needed_by_two(name: str) -> None:
    assert sum(name in item.needs for item in GOLDEN.values()) >= 2


def test_every_ending_is_there() -> None:
    endings = {
        item.observation.end.kind for item in GOLDEN.values() if isinstance(item.observation, Schedule)
    }

    assert endings == {"done", "refused", "stall", "livelock", "limit", "error"}


@pytest.mark.parametrize("level", LEVELS)
def test_every_field_says_something_somewhere(level: str) -> None:
    lines = of_level(level)
    blank = {name for name in FIELDS[level] if not any(is_told(item.observation, name) for item in lines)}

    assert blank == NEVER_THERE.get(level, set())


def test_every_kind_of_refusal_is_there() -> None:
    seen = {item.observation.kind for item in of_level("plan") if isinstance(item.observation, PlanError)}
    listed = (
        (CODE_ROOT / "docs" / "protocol.md").read_text().split("| error kind | when |")[1].split("\n\n")[0]
    )
    kinds = {line.split("`")[1] for line in listed.splitlines() if "`" in line}

    assert seen >= {kind for kind in kinds if not kind.startswith("unrecognised")} - {"cannot-auto-fit"}


def test_the_founding_case_is_there() -> None:
    assert {"auto-fit/null-block", "preemption/sole-request-outgrows-pool"} <= GOLDEN.keys()


def test_the_files_are_what_would_be_written() -> None:
    header, lines = load_golden()

    for level in LEVELS:
        assert (FOLDER / f"{level}.jsonl").read_text() == text(header, level, lines)


@pytest.mark.parametrize(
    "spoil", [lambda path: path.unlink(), lambda path: path.write_bytes(b'{"format": 1}\n')]
)
def test_lines_that_are_not_whole_are_one_error(spoil: Callable[[Path], object], tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "golden")
    spoil(tmp_path / "golden" / "plan.jsonl")

    with pytest.raises(HarnessError, match=r"plan\.jsonl"):
        load_golden(tmp_path / "golden")


@pytest.mark.oracle
def test_they_are_what_live_upstream_does(play_oracle: Callable[[Case], Observation]) -> None:
    cases = {case.id: case for case in SUITE(CODE_ROOT)}

    for name, item in list(GOLDEN.items())[::4]:
        assert play_oracle(cases[name]) == item.observation, name


@pytest.mark.oracle
def test_a_process_that_is_none_leaves_the_files_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = (FOLDER / "plan.jsonl").read_bytes()
    monkeypatch.chdir(CODE_ROOT)
    monkeypatch.setattr(golden_record, "chosen", lambda: ["auto-fit/no-such-scenario"])

    assert golden_record.main() == 64

    assert (FOLDER / "plan.jsonl").read_bytes() == before


VALIDATE = """
import json, sys
from jsonschema import Draft202012Validator
for line in sys.stdin:
    schema, value = json.loads(line)
    Draft202012Validator(schema).validate(value)
"""


@pytest.mark.oracle
def test_every_line_is_valid_under_the_shipped_schemas() -> None:
    """Upstream's environment has a validator; ours needs none."""
    interpreter = os.environ.get("NULLBLOCK_ORACLE_PYTHON", str(CODE_ROOT / "oracle/.venv/bin/python"))
    schemas = {name: json.loads(body) for name, body in documents().items()}
    pairs = []
    for seq, item in enumerate(GOLDEN.values()):
        wire, seen = msgspec.to_builtins(item.scenario), plain(item.observation)
        end = seen
        if item.scenario.level == "schedule":
            end = {"plan": seen["plan"], "end": seen["end"]}
            pairs += [
                (schemas["protocol-step.json"], {"seq": seq, "step": step}) for step in seen["steps"][:3]
            ]
        pairs += [
            (schemas["scenario.json"], wire),
            (schemas["observation.json"], seen),
            (schemas["protocol-run.json"], {"seq": seq, "op": "run", "scenario": wire}),
            (schemas["protocol-end.json"], {"seq": seq, "end": end, "seconds": 0.5}),
        ]
    pairs.append(
        (schemas["protocol-hello.json"], {"seq": 1, "hello": {"name": "a", "version": "1", "levels": []}})
    )
    pairs.append((schemas["protocol-error.json"], {"seq": None, "error": {"kind": "driver", "message": "m"}}))
    lines = "".join(json.dumps(pair) + "\n" for pair in pairs)

    done = subprocess.run(
        [interpreter, "-c", VALIDATE], input=lines, text=True, capture_output=True, timeout=120
    )

    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.skipif(shutil.which("node") is None, reason="no node on this machine")
@pytest.mark.parametrize(
    ("vice", "code", "says"),
    [
        ("honest", 0, "{count} of {count} played, 0 not as vLLM 0.27.1"),
        ("ignores aborts", 1, "serving/abort-twice: not as vLLM 0.27.1"),
        ("dies-after-hello", 2, "the process ended without an answer"),
    ],
)
def test_a_reader_without_python_replays_them(vice: str, code: int, says: str) -> None:
    words = [sys.executable, "-m", "tests.parity.zoo", *vice.split()]

    done = subprocess.run(
        ["node", REPLAY, FOLDER / "schedule.jsonl", *words],
        cwd=CODE_ROOT,
        text=True,
        capture_output=True,
        timeout=120,
    )

    assert done.returncode == code, done.stderr
    assert says.format(count=len(of_level("schedule"))) in done.stdout + done.stderr


def test_the_engine_of_this_checkout_can_be_asked_all_of_them() -> None:
    engine = load_subject(CODE_ROOT / "subjects" / "engine.toml").subject

    assert stepping(engine) == list(LEVELS)
    assert all(set(item.needs) <= set(engine.can) for item in GOLDEN.values())

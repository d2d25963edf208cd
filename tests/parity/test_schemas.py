"""The published JSON Schemas say what the types say, and the verb that keeps them fresh."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import pytest

from parity.cli import schema
from parity.errors import ExitCode, UsageError
from parity.schemas import FOLDER, documents, stale, write


@pytest.fixture
def checkout(tmp_path: Path, root: Path) -> Path:
    (tmp_path / FOLDER).parent.mkdir(parents=True)
    shutil.copytree(root / FOLDER, tmp_path / FOLDER)
    return tmp_path


def test_the_committed_schemas_are_fresh(root: Path) -> None:
    assert stale(root) == []


def test_a_changed_a_missing_and_a_superfluous_schema_are_noticed_and_mended(checkout: Path) -> None:
    folder = checkout / FOLDER
    (folder / "scenario.json").write_text((folder / "scenario.json").read_text() + " ")
    (folder / "observation.json").unlink()
    (folder / "extra.json").write_text("{}")
    names = ["extra.json", "observation.json", "scenario.json"]

    assert stale(checkout) == names
    assert write(checkout) == names
    assert stale(checkout) == []


def test_a_folder_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "parity").mkdir()
    (tmp_path / FOLDER).write_text("a file where the folder should be")

    with pytest.raises(UsageError, match=r"parity/schemas cannot be written"):
        write(tmp_path)


@pytest.mark.parametrize(
    ("break_it", "check", "code", "said"),
    [
        (False, True, ExitCode.OK, "9 schemas are fresh"),
        (True, True, ExitCode.FINDINGS, "parity/schemas/scenario.json: not fresh"),
        (True, False, ExitCode.OK, "parity/schemas/scenario.json: written"),
    ],
)
def test_the_verb_checks_or_writes(
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    break_it: bool,
    check: bool,
    code: ExitCode,
    said: str,
) -> None:
    monkeypatch.setattr("parity.root.project_root", lambda: checkout)
    if break_it:
        (checkout / FOLDER / "scenario.json").write_text("{}")

    assert schema.execute(argparse.Namespace(check=check)) == code

    assert said in capsys.readouterr().out
    assert (stale(checkout) == []) is not (break_it and check)


def test_every_reference_of_a_schema_resolves_inside_it() -> None:
    for text in documents().values():
        body = json.loads(text)
        names = {part.split('"')[0] for part in text.split("#/$defs/")[1:]}
        assert names
        assert names <= body["$defs"].keys()


def test_the_schema_of_the_file_form_allows_a_template_for_a_number() -> None:
    defs = json.loads(documents()["scenario-file.json"])["$defs"]

    assert {"type": "string", "pattern": r"\$\{[^{}]*\}"} in defs["ConfigForm"]["properties"]["block_size"][
        "anyOf"
    ]
    assert defs["ConfigForm"]["required"] == ["model"]
    assert defs["ServerConfigForm"]["required"] == ["model", "num_blocks"]
    assert {"send", "at_once", "await"} <= defs["ActionForm"]["properties"].keys()
    assert defs["RangeForm"]["properties"].keys() == {"from", "to", "step"}


def test_the_schema_of_an_observation_tells_its_four_forms_apart() -> None:
    body = json.loads(documents()["observation.json"])

    forms = {part["$ref"].rsplit("/", 1)[1] for part in body["oneOf"]}
    assert forms == {"PlanOk", "PlanError", "Schedule", "Serve"}
    assert body["$defs"]["PlanOk"]["properties"]["status"] == {"enum": ["ok"]}
    assert {"steps", "plan", "end"} == set(body["$defs"]["Schedule"]["required"])

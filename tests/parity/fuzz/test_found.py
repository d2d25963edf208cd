"""The file that keeps a finding: readable, read back as it was, written once, and clear about what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from parity.decode import plain
from parity.document import parse
from parity.errors import RunFileError, ScenarioError
from parity.fuzz.document import Document, case_from
from parity.fuzz.edits import tidied
from parity.fuzz.found import Found, found_path, found_text, keep, kept, parse_found, read_found
from parity.fuzz.text import dump, laid
from parity.suite import scenario_files
from parity.sweep import expand

SHAPE = "schedule|ours|update|steps[*].free_after|less|-|resume|-"
TEXT = """\
fingerprint: f1:0123456789abcdef
shape: schedule|ours|update|steps[*].free_after|less|-|resume|-
attribution: ours
property: null
at: steps[3].free_after
oracle: 3
subject: 2
pin: 0.27.1
seed: 7
unit: 4
ordinal: 12
policies: {null-block-capacity: reserve}
attempts: 90
scenario:
  level: schedule
  config: {model: tiny-opt, num_blocks: 4}
  requests:
    - {id: r0, at: 2, prompt: [{of: r1}, 7], max_tokens: 3}
    - {id: r1, prompt: 20, max_tokens: 5}
  aborts:
    - {id: r1, at: 4}
"""


def document(blocks: int = 4) -> Document:
    return {
        "level": "schedule",
        "config": {"model": "tiny-opt", "num_blocks": blocks},
        "requests": [
            {"id": "r0", "at": 2, "prompt": [{"of": "r1"}, 7], "max_tokens": 3},
            {"id": "r1", "prompt": 20, "max_tokens": 5},
        ],
        "aborts": [{"id": "r1", "at": 4}],
    }


def found(blocks: int = 4, **changes: Any) -> Found:
    values: dict[str, Any] = {
        "fingerprint": "f1:0123456789abcdef",
        "shape": SHAPE,
        "attribution": "ours",
        "property": None,
        "at": "steps[3].free_after",
        "oracle": 3,
        "subject": 2,
        "pin": "0.27.1",
        "scenario": document(blocks),
        "seed": 7,
        "unit": 4,
        "ordinal": 12,
        "policies": {"null-block-capacity": "reserve"},
        "attempts": 90,
    }
    return Found(**(values | changes))


def test_the_text_is_what_a_person_would_write() -> None:
    assert found_text(found()) == TEXT


def test_the_text_reads_back_as_the_same_finding() -> None:
    assert parse_found(TEXT.encode(), "x.yaml") == found()


@pytest.mark.parametrize(
    "value", [2**70, "a\x07b", float("inf"), [[[[["deep"]]]]], {"a": {"b": {"c": {"d": 1}}}}, True, 1.5]
)
def test_values_that_yaml_has_not_are_told_all_the_same(value: object) -> None:
    text = found_text(found(oracle=value))

    assert parse_found(text.encode(), "x.yaml").at == "steps[3].free_after"


def test_every_scenario_of_the_suite_reads_back_as_it_was_written(root: Path) -> None:
    """In the suite's own style and in a found file; and what `tidied` leaves out changes no question."""
    for path in scenario_files(root):
        point = expand(parse(path.read_bytes()))[0]
        written = plain(point.tree)

        assert plain(parse(dump(laid(written)).encode())) == written, path
        assert case_from(tidied(written)).hash == case_from(written).hash, path
        kept_as = Found("f1:" + "0" * 16, SHAPE, "ours", None, "end", 1, 2, "0.27.1", written)
        assert parse_found(found_text(kept_as).encode(), "x.yaml") == kept_as, path


def test_a_finding_is_kept_below_the_root_by_its_fingerprint(tmp_path: Path) -> None:
    path = keep(found(), tmp_path)

    assert path == tmp_path / "runs" / "found" / "f1-0123456789abcdef.yaml"
    assert path.read_text() == TEXT
    assert kept(tmp_path) == [path]
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_it_is_kept_once_unless_the_new_one_is_smaller(tmp_path: Path) -> None:
    path = keep(found(5), tmp_path)

    keep(found(6), tmp_path)
    keep(found(5, attempts=1), tmp_path)
    assert read_found(path) == found(5)

    keep(found(4), tmp_path)
    assert read_found(path) == found(4)


def test_a_side_that_failed_has_a_file_of_its_own(tmp_path: Path) -> None:
    path = keep(found(fingerprint="void:subject", attribution=None, shape="no end within 20 s"), tmp_path)

    assert path == found_path(tmp_path, "void:subject")
    assert read_found(path).shape == "no end within 20 s"


def test_a_file_that_is_not_one_is_not_written_over(tmp_path: Path) -> None:
    path = found_path(tmp_path, "f1:0123456789abcdef")
    path.parent.mkdir(parents=True)
    path.write_text("mine: 1\n")

    with pytest.raises(ScenarioError):
        keep(found(), tmp_path)

    assert path.read_text() == "mine: 1\n"


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")

    with pytest.raises(RunFileError, match=r"f1-0123456789abcdef.yaml cannot be written: "):
        keep(found(), tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "attempts: 90",
            "atempts: 90",
            "x.yaml:13: atempts: unknown key 'atempts' — did you mean 'attempts'?",
        ),
        ("seed: 7", "seed: seven", "x.yaml:9: seed: expected a whole number or null, got the text 'seven'"),
        ("f1:0123456789abcdef", "f1:012", "x.yaml:1: fingerprint: 'f1:012' is no fingerprint"),
        (
            "level: schedule",
            "level: shedule",
            "x.yaml:15: scenario.level: 'shedule' is not a choice here — did you mean 'schedule'?",
        ),
        (
            "level: schedule",
            "level: plan",
            "level plan runs nothing, so it has no requests — use level: schedule",
        ),
        ("level: schedule", "level: serve", "level serve has no requests — use level: schedule"),
        ("level: schedule", "level: 1", "scenario.level: expected "),
        ("  level: schedule\n", "", "scenario: key 'level' is missing"),
        ("id: r1, at: 4", "id: r9, at: 4", "x.yaml:21: scenario.aborts[0].id: no request 'r9' to abort"),
        ("block-capacity: reserve", "block-capacity: keep", "x.yaml:12: policies: "),
        ("pin: 0.27.1\n", "", "x.yaml:1: key 'pin' is missing"),
        ("  config: {", "  config: {{", "x.yaml:"),
        ("model: tiny-opt", "model: tiny-top", "no model 'tiny-top'"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line_with_its_place(old: str, new: str, said: str) -> None:
    with pytest.raises(ScenarioError) as error:
        parse_found(TEXT.replace(old, new, 1).encode(), "x.yaml")

    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="cannot be read: No such file"):
        read_found(tmp_path / "none.yaml")

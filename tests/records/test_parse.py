"""From a file to a record, and what is told of a file that is none."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path

import pytest

from parity.errors import ExitCode, RecordError
from parity.records.parse import load_records, records_digest

FIXTURES = Path(__file__).parent / "fixtures"
GOOD = (FIXTURES / "good" / "policy-syntax.md").read_text(encoding="utf-8")


def put(root: Path, text: str | bytes, name: str = "records/auto-fit/null-block.md") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_record_has_its_id_from_its_path_and_its_values_typed(tmp_path: Path) -> None:
    put(tmp_path, GOOD)

    (record,) = load_records(tmp_path)

    assert (record.id, record.path, record.area) == (
        "auto-fit/null-block",
        "records/auto-fit/null-block.md",
        "auto-fit",
    )
    assert record.front.proposed.on == datetime.date(2026, 12, 1)
    assert record.policy == ("null-block-capacity", "reserve")
    assert record.front.diverging[0].subject == 48
    assert record.sections[0].title == "What is observed"
    assert record.covers


def test_the_findings_beside_a_record_are_its_exemplars(tmp_path: Path) -> None:
    for ending in (".md", ".findings.yaml"):
        text = (FIXTURES / "good" / f"id-mismatch{ending}").read_text(encoding="utf-8")
        put(tmp_path, text, f"records/auto-fit/id-mismatch{ending}")

    (record,) = load_records(tmp_path)

    assert record.scenarios == ("caching/case-1", "caching/case-2", "caching/case-3", "caching/case-4")


def test_no_folder_of_records_is_no_record(tmp_path: Path) -> None:
    assert load_records(tmp_path) == ()


def test_a_readme_among_the_areas_is_no_record(tmp_path: Path) -> None:
    put(tmp_path, "# Records\n", "records/README.md")

    assert load_records(tmp_path) == ()


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("# no front matter\n", ":1: ", "does not start with front matter"),
        ("", ":1: ", "does not start with front matter"),
        ("---\ntitle: x\n", ":1: ", "has no end"),
        ("---\ntitle: x\ntitle: y\n---\n", ":3: ", "key 'title' stands twice"),
        ("---\n- x\n---\n", ":2: ", "no list of keys and values"),
        ("---\n---\n", ":2: ", "no list of keys and values"),
        (GOOD.replace("on: 2026-12-01", "on: soon"), ":1", "proposed.on: "),
        (GOOD.replace("exemplars:\n", "exemplars: none\nother:\n"), ":7: ", "exemplars: "),
        (b"---\ntitle: \xff\n---\n", ": ", "is not UTF-8 text"),
    ],
)
def test_a_file_that_is_no_record_is_one_line_with_file_and_line(
    tmp_path: Path, text: str | bytes, where: str, message: str
) -> None:
    put(tmp_path, text)

    with pytest.raises(RecordError) as caught:
        load_records(tmp_path)

    shown = str(caught.value)
    assert shown.startswith(f"records/auto-fit/null-block.md{where}")
    assert message in shown
    assert "\n" not in shown
    assert caught.value.exit_code is ExitCode.USAGE


def test_a_fault_in_the_findings_beside_a_record_names_that_file(tmp_path: Path) -> None:
    put(tmp_path, GOOD)
    put(tmp_path, "record: auto-fit/null-block\nexemplars: 3\n", "records/auto-fit/null-block.findings.yaml")

    with pytest.raises(RecordError, match=r"null-block\.findings\.yaml:2: exemplars: Expected"):
        load_records(tmp_path)


def test_findings_without_a_record_and_records_in_other_places_are_refused(tmp_path: Path) -> None:
    path = put(tmp_path, "record: x\nexemplars: []\n", "records/auto-fit/alone.findings.yaml")
    with pytest.raises(RecordError, match="there is no record beside these findings"):
        load_records(tmp_path)
    path.unlink()
    put(tmp_path, GOOD, "records/auto-fit/deeper/record.md")
    with pytest.raises(RecordError, match="a record lives in records/<area>/<slug>"):
        load_records(tmp_path)


def test_a_heading_within_a_code_fence_is_text(tmp_path: Path) -> None:
    put(tmp_path, GOOD.replace("## Why\n", "## Why\n\n```\n## no heading\n```\n"))

    (record,) = load_records(tmp_path)

    assert "no heading" not in [section.title for section in record.sections]
    assert len(record.sections) == 6


def test_the_digest_of_the_record_set_sees_names_and_contents(tmp_path: Path) -> None:
    path = put(tmp_path, GOOD)
    first = records_digest(tmp_path)
    put(tmp_path, "ignored", "records/auto-fit/.notes.txt")
    same = records_digest(tmp_path)
    path.write_text(GOOD + "\n", encoding="utf-8")
    edited = records_digest(tmp_path)
    path.rename(path.with_name("renamed.md"))
    renamed = records_digest(tmp_path)

    shutil.copytree(tmp_path / "records", tmp_path / "elsewhere" / "decisions")
    elsewhere = records_digest(tmp_path / "other", tmp_path / "elsewhere" / "decisions")

    assert first == same
    assert len({first, edited, renamed}) == 3
    assert elsewhere == renamed

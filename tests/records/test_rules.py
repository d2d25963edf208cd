"""Every rule of the lint: a record that keeps it, and one that breaks it and nothing else.

A fixture is copied to `records/auto-fit/<rule>.md` of a small tree; SAMPLE_DIGEST in it stands for the digest of
the sample source's only symbol.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from oracle.symbols import symbol_digest
from parity.records.lint import RULES, ground_of, lint_records
from parity.records.rules import Ground, name_of

FIXTURES = Path(__file__).parent / "fixtures"
NAMES = [name_of(rule) for rule in RULES]
BAD_PLACES = {"bad-area": "nonsense/bad-area", "bad-slug": "auto-fit/Bad_Slug"}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    shutil.copytree(FIXTURES / "tree", tmp_path, dirs_exist_ok=True)
    return tmp_path


def place(tree: Path, fixture: Path, name: str) -> Ground:
    """Puts the fixture, and the findings beside it, into the tree as the record `name`."""
    source = (tree / "engine" / "sample.py").read_text(encoding="utf-8")
    target = tree / "records" / f"{name}.md"
    target.parent.mkdir(parents=True)
    text = fixture.read_text(encoding="utf-8")
    target.write_text(text.replace("SAMPLE_DIGEST", symbol_digest(source, "answer")), encoding="utf-8")
    beside = fixture.with_suffix(".findings.yaml")
    if beside.exists():
        shutil.copy(beside, target.with_name(f"{target.stem}.findings.yaml"))
    return ground_of(tree, tree / "upstream")


def test_rules_and_fixtures_are_the_same_set() -> None:
    for folder in ("good", "bad"):
        assert {path.stem for path in (FIXTURES / folder).glob("*.md")} == set(NAMES)


@pytest.mark.parametrize("rule", NAMES)
def test_a_good_record_passes(tree: Path, rule: str) -> None:
    ground = place(tree, FIXTURES / "good" / f"{rule}.md", f"auto-fit/{rule}")

    assert lint_records(ground) == []


@pytest.mark.parametrize("rule", NAMES)
def test_a_bad_record_breaks_this_rule_and_no_other(tree: Path, rule: str) -> None:
    name = BAD_PLACES.get(rule, f"auto-fit/{rule}")
    ground = place(tree, FIXTURES / "bad" / f"{rule}.md", name)

    problems = lint_records(ground)

    assert {problem.rule for problem in problems} == {rule}
    for problem in problems:
        text = (tree / problem.path).read_text(encoding="utf-8")
        assert 1 <= problem.line <= len(text.splitlines())
        assert problem.path.startswith(f"records/{name}.")


def test_good_and_bad_are_told_apart_by_the_text_or_by_the_place() -> None:
    for rule in NAMES:
        good, bad = (FIXTURES / folder / f"{rule}.md" for folder in ("good", "bad"))
        beside = [path.with_suffix(".findings.yaml") for path in (good, bad)]
        told = good.read_text() != bad.read_text() or rule in BAD_PLACES
        assert told or beside[0].read_text() != beside[1].read_text()


def test_upstreams_anchors_are_looked_at_only_where_its_source_is_at_hand(tree: Path) -> None:
    ground = place(tree, FIXTURES / "bad" / "anchor-moved.md", "auto-fit/anchor-moved")

    with_source = [problem.message for problem in lint_records(ground)]
    without = [problem.message for problem in lint_records(ground_of(tree))]

    assert [message.split()[1] for message in with_source] == [
        "engine/sample.py::answer",
        "vllm/sample.py::gone:",
    ]
    assert [message.split()[1] for message in without] == ["engine/sample.py::answer"]


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ("unknown-key", "did you mean 'on_bump'?"),
        ("unknown-pin", "there: vllm-0.27.1"),
        ("anchor-moved", "changed: read it, then `parity record refresh auto-fit/anchor-moved`"),
    ],
)
def test_a_problem_says_what_to_do(tree: Path, rule: str, wanted: str) -> None:
    ground = place(tree, FIXTURES / "bad" / f"{rule}.md", f"auto-fit/{rule}")

    text = "\n".join(str(problem) for problem in lint_records(ground))

    assert wanted in text
    assert f"[{rule}]" in text


def test_a_problem_names_the_line_of_its_key(tree: Path) -> None:
    ground = place(tree, FIXTURES / "bad" / "bad-state.md", "auto-fit/bad-state")

    (problem,) = lint_records(ground)

    row = (tree / problem.path).read_text(encoding="utf-8").splitlines()[problem.line - 1]
    assert row == "state: agreed"

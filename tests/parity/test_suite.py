"""Finding the suite's files, and choosing a part of it by id, by file, by family."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity.errors import ScenarioError, UsageError
from parity.scenario import Case
from parity.suite import load_suite, select

PLAN = "title: x\nlevel: plan\nconfig: {model: tiny-opt}\n"
SWEEP = 'title: x\nlevel: plan\nconfig: {model: tiny-opt, num_blocks: "${n}"}\nsweep: {id: "n${n}", axes: {n: [1, 2]}}\n'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in {
        "caching/one.yaml": PLAN,
        "caching/one-more.yaml": PLAN,
        "admission/many.yaml": SWEEP,
        "admission/.many.yaml.swp": "not a scenario",
    }.items():
        path = tmp_path / "parity/scenarios" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def ids(cases: list[Case]) -> list[str]:
    return [case.id for case in cases]


ALL = ["admission/many/n1", "admission/many/n2", "caching/one", "caching/one-more"]


def test_the_suite_is_every_file_sorted_by_id_with_paths_below_the_root(checkout: Path) -> None:
    suite = load_suite(checkout)

    assert ids(suite) == ALL
    assert suite[0].path == "parity/scenarios/admission/many.yaml"


@pytest.mark.parametrize(
    ("names", "family", "expected"),
    [
        ([], None, ALL),
        ([], "caching", ALL[2:]),
        (["caching/one"], None, ["caching/one"]),
        (["admission/many"], None, ALL[:2]),
        (["admission/many/n2"], None, ALL[1:2]),
        (["caching/"], None, ALL[2:]),
        (["caching"], None, ALL[2:]),
        (["caching/one", "admission", "caching/one"], None, ALL[:3]),
        (["caching/one"], "caching", ["caching/one"]),
    ],
)
def test_a_name_selects_a_scenario_a_file_or_a_family(
    checkout: Path, names: list[str], family: str | None, expected: list[str]
) -> None:
    assert ids(select(load_suite(checkout), names, family)) == expected


@pytest.mark.parametrize(
    ("names", "family", "message"),
    [
        (["caching/on"], None, "no scenario 'caching/on' — did you mean 'caching/one'?"),
        (["admission/many/n3"], None, "did you mean 'admission/many/n2'?"),
        (["admision/many"], None, "did you mean 'admission/many'?"),
        (["caching/one", "nothing"], None, "no scenario 'nothing'"),
        (["admission/many"], "caching", "no scenario 'admission/many' in the family 'caching'"),
        ([""], None, "no scenario ''"),
        (["/"], None, "no scenario '/'"),
        ([], "cachin", "no family 'cachin' — did you mean 'caching'?"),
        ([], "shutdown", "the family 'shutdown' has no scenarios"),
    ],
)
def test_a_name_that_selects_nothing_is_an_error_with_the_nearest_one(
    checkout: Path, names: list[str], family: str | None, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        select(load_suite(checkout), names, family)

    assert message in str(caught.value)


@pytest.mark.parametrize(
    "name", ["caching/two.yml", "caching/deep/two.yaml", "two.yaml", "caching/README.md", "nofamily/two.yaml"]
)
def test_a_file_that_would_be_passed_over_is_an_error(checkout: Path, name: str) -> None:
    path = checkout / "parity/scenarios" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(PLAN)

    with pytest.raises(ScenarioError, match=f"^parity/scenarios/{name}: "):
        load_suite(checkout)


def test_one_bad_file_refuses_the_suite(checkout: Path) -> None:
    (checkout / "parity/scenarios/caching/one.yaml").write_text(PLAN + "extra: 1\n")

    with pytest.raises(ScenarioError, match=r"^parity/scenarios/caching/one.yaml:4: extra: unknown key"):
        load_suite(checkout)


def test_a_checkout_without_scenarios_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder parity/scenarios"):
        load_suite(tmp_path)


def test_an_empty_suite_selects_nothing(tmp_path: Path) -> None:
    (tmp_path / "parity/scenarios").mkdir(parents=True)

    with pytest.raises(UsageError, match="there are no scenarios"):
        select(load_suite(tmp_path), [])

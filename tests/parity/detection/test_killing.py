"""A planted mutant is noticed by a check and by tests, and an untouched engine by neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from parity.detection.children import Task, run_all
from parity.detection.killing import by_check, by_judge, by_tests
from parity.detection.mutation import Mutant, mutants_of
from parity.detection.planted import ROOT
from parity.detection.planting import Planting
from parity.detection.replay import Check, observe_all, plays_of
from parity.errors import InconclusiveError

TESTS = "tests/engine/test_block_pool.py"


def find(file: str, symbol: str, operator: str) -> Mutant:
    return next(m for m in mutants_of(ROOT, file) if m.symbol == symbol and m.operator == operator)


def value(work: Callable[[], Any]) -> Any:
    (answer,) = run_all([Task("", work, 100.0)], 1)
    assert answer.failure is None
    return answer.value


@pytest.fixture(scope="module")
def check() -> Check:
    return Check.of(ROOT)


@pytest.fixture(scope="module")
def engine(check: Check) -> dict[str, Any]:
    """What the untouched engine does, which stands in for the oracle as well."""
    return observe_all(check)


def test_a_check_is_green_untouched_and_notices_a_block_too_many(
    check: Check, engine: dict[str, Any]
) -> None:
    oracle = plays_of(check.cases, engine)

    assert value(by_check(check, oracle, [])) == [0, None, "COVERED"]
    code, where, verdict = value(
        by_check(check, oracle, [find("engine/block_pool.py", "usable_blocks", "arith")])
    )
    assert code == 1
    assert where in {case.id for case in check.cases}
    assert verdict in ("NEW", "CHANGED")


def test_an_engine_that_cannot_be_loaded_is_noticed(check: Check, engine: dict[str, Any]) -> None:
    oracle = plays_of(check.cases, engine)
    broken = find("engine/policies.py", "module", "text")  # a default that is none of the values

    code, _, _ = value(by_check(check, oracle, [broken]))

    assert code != 0


def test_a_judge_that_sees_less_than_there_is_is_noticed_by_the_records(engine: dict[str, Any]) -> None:
    blind = find("parity/properties.py", "serves_advertised_length", "none")

    assert value(by_judge(ROOT, [], engine, engine)) == [0, None, "COVERED"]
    code, _, verdict = value(by_judge(ROOT, [blind], engine, engine))
    assert (code, verdict) != (0, "COVERED")


def test_tests_pass_untouched_and_name_the_first_that_fails() -> None:
    assert value(by_tests(ROOT, [], [TESTS])) == [0, None]
    code, where = value(by_tests(ROOT, [find("engine/block_pool.py", "BlockPool.take", "none")], [TESTS]))
    assert code == 1
    assert where.startswith(f"{TESTS}::test_")


def test_nothing_is_concluded_from_a_check_that_is_not_green_untouched(engine: dict[str, Any]) -> None:
    name = "block-count/few-blocks/1-16"
    wrong = {**engine, name: {**engine[name], "bytes_per_block": 1}}

    with pytest.raises(InconclusiveError, match=f"not green: {name} is "):
        Planting(ROOT, wrong, 1, print).check([], {})

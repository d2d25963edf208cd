"""Pairs of faults, the hunt that one may hide in, and what the report says."""

from __future__ import annotations

import argparse
import json
from typing import Any

import msgspec
import pytest

from parity.detection import masking as command
from parity.detection.children import Task, run_all
from parity.detection.killing import planted_side
from parity.detection.mutation import Mutant, mutants_of
from parity.detection.pairs import Fault, Pair, Share, fit, make, shares
from parity.detection.planted import ROOT
from parity.detection.pool import Drawn, Hunt, Pool
from parity.detection.recording import Shown
from parity.engine_side import EngineSide
from parity.fuzz.behind import DEPTH
from parity.fuzz.document import Document, case_from
from parity.scenario import Scenario
from tests.records.miniature import HASH, finding

CONFIG = {"model": "opt-125m", "num_blocks": 8, "max_num_batched_tokens": 64}


def mutant(file: str, symbol: str, operator: str) -> Mutant:
    return next(m for m in mutants_of(ROOT, file) if m.symbol == symbol and m.operator == operator)


FIRST = mutant("engine/scheduler.py", "Scheduler._pop_victim", "call")
SECOND = mutant("engine/block_pool.py", "blocks_for", "arith")
INSIDE = mutant("engine/scheduler.py", "Scheduler._pop_victim", "none")


def fault(planted: Mutant, scenarios: int = 1, recordable: bool = True) -> Fault:
    return Fault(planted, [Shown("preemption/a", HASH, finding(1, "ours"))], scenarios, recordable)


def test_the_faults_that_show_least_are_taken() -> None:
    many, few = fault(FIRST, 50), fault(SECOND, 2)

    assert fit([many, few], 1) == [few]
    assert fit([many, few], 9) == sorted([many, few], key=lambda item: item.planted.id)


def test_a_pair_is_two_faults_that_fit_together_with_the_first_on_record() -> None:
    pairs = make(ROOT, [fault(FIRST), fault(SECOND, recordable=False), fault(INSIDE, recordable=False)], 9, 0)

    assert {(first.planted.id, second.planted.id) for first, second in pairs} >= {(FIRST.id, SECOND.id)}
    assert all(first.planted.id == FIRST.id for first, _ in pairs)


def test_the_seed_decides_which_pairs_are_made() -> None:
    faults = [fault(m) for m in mutants_of(ROOT, "engine/request_queue.py")]

    names = [[(a.planted.id, b.planted.id) for a, b in make(ROOT, faults, 5, seed)] for seed in (0, 0, 1)]

    assert names[0] == names[1]
    assert names[0] != names[2]
    assert len(set(names[0])) == 5


PAIRS = [
    Pair(FIRST.id, SECOND.id, check=False, hunt=True, behind=False),
    Pair(SECOND.id, FIRST.id, check=True, hunt=None, behind=None),
]


def test_a_share_counts_only_what_could_show() -> None:
    assert shares(PAIRS) == [Share("check", 1, 2), Share("hunt", 1, 1), Share("behind", 0, 1)]
    assert [share.reached for share in shares(PAIRS)] == [
        False,
        True,
        True,
    ]  # 50 % of a check; no limit alone


def test_a_report_has_the_shares_and_both_changes_of_what_stayed_hidden() -> None:
    args = argparse.Namespace(seed=0, pool=10)
    faults = [fault(FIRST), fault(SECOND)]

    text = "\n".join(command.lines(ROOT, faults, PAIRS, args))
    value = json.loads(command.as_json(faults, PAIRS, args))

    assert "in a check                                1 of    2    50.0%   (at most 10%, MISSED)" in text
    assert f"HIDDEN in a check: {FIRST.id}\n  while on record: {SECOND.id}" in text
    assert f"HIDDEN in a hunt by fingerprints alone: {SECOND.id}" in text
    assert value["shares"][0] == {"where": "check", "hidden": 1, "of": 2, "rate": 0.5, "reached": False}
    assert value["pairs"] == msgspec.to_builtins(PAIRS)


def pool(*documents: Document) -> Pool:
    """The documents with what the untouched engine does in them, in the oracle's place."""
    engine = EngineSide()
    drawn = []
    for document in documents:
        scenario = case_from(document).scenario
        assert isinstance(scenario, Scenario)
        engine.begin(scenario)
        played = engine.finish()
        assert played.observation is not None
        drawn.append(Drawn(document, scenario, played.observation))
    return drawn


def document(*requests: dict[str, Any], **config: Any) -> Document:
    return {"level": "schedule", "config": {**CONFIG, **config}, "requests": list(requests)}


def request(name: str, prompt: int, at: int = 0, **more: Any) -> dict[str, Any]:
    return {"id": name, "at": at, "prompt": prompt, "max_tokens": 4, **more}


def hunted(planted: list[Mutant], drawn: Pool, known: frozenset[str], depth: int) -> list[str]:
    def work() -> list[str]:
        side = planted_side(planted)
        assert side is not None
        return sorted(Hunt(drawn, side(), depth).new(known, early=False))

    (answer,) = run_all([Task("", work, 60.0)], 1)
    assert answer.failure is None
    return list(answer.value)


def test_an_untouched_engine_shows_nothing_and_a_fault_shows() -> None:
    drawn = pool(document(request("a", 8), request("b", 40, at=1)))

    assert hunted([], drawn, frozenset(), DEPTH) == []
    assert len(hunted([SECOND], drawn, frozenset(), 0)) == 1


def test_behind_a_known_difference_a_second_fault_shows_once_the_first_is_undone() -> None:
    """`again` reads no cache though it should, which is on record; the reset that comes later goes wrong as well."""
    blind = next(
        m
        for m in mutants_of(ROOT, "engine/request.py")
        if m.symbol == "Request.__init__" and "prompt_logprobs is not None" in m.becomes
    )
    deaf = mutant("engine/scheduler.py", "Scheduler.reset_prefix_cache", "neg")
    first, again, late = (
        request("first", 40, seed=1),
        request("again", 40, at=6, seed=1),
        request("late", 8, at=12, max_tokens=9),
    )
    resets = {"resets": [{"at": 15, "running": True}]}
    whole, rest = pool({**document(first, again, late), **resets}), pool({**document(first, late), **resets})
    known = frozenset(hunted([blind], whole, frozenset(), 0))
    second = hunted([deaf], rest, frozenset(), 0)

    assert (len(known), len(second)) == (1, 1)
    assert hunted([blind, deaf], whole, known, 0) == []
    assert hunted([blind, deaf], whole, known, DEPTH) == second


@pytest.mark.parametrize("arguments", [["--pairs", "0"], ["--pool", "x"], ["--nonsense"]])
def test_a_mistake_is_one_line_and_64(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)

    assert ended.value.code == 64
    assert capsys.readouterr().err.count("\n") == 1

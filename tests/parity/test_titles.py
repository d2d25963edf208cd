"""A title is a claim: what it says of the outcome is what upstream does, for every scenario that a driver plays."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from parity.observation import Observation
from parity.scenario import Case
from tests.parity.conftest import PlayOracle
from tests.parity.facts import FACTS

pytestmark = pytest.mark.oracle

Claim = Callable[[Observation, re.Match[str]], bool]


def fact(name: str, seen: Observation) -> object:
    return FACTS[name](seen)


def outputs(seen: Observation) -> list[int]:
    return list(FACTS["outputs"](seen).values())


def hits(seen: Observation) -> int:
    """Tokens that the last admission found in the cache."""
    return int(FACTS["cached"](seen)[-1][1])


def steps_of(name: str, seen: Observation) -> set[int]:
    return {step for step, _ in FACTS[name](seen)}


REFUSED = {"kv-cache-too-small", "no-kv-cache-memory", "max-model-len-above-model", "refused"}

CLAIMS: dict[str, Claim] = {
    r"is refused|refuses to start": lambda seen, _: (
        fact("kind", seen) in REFUSED
        or str(fact("kind", seen)).startswith(("batched-tokens-below", "long-prefill"))
    ),
    r"for want of memory": lambda seen, _: fact("kind", seen) == "no-kv-cache-memory",
    r"cannot be fitted": lambda seen, _: fact("kind", seen) == "cannot-auto-fit",
    r"(?<!exactly )\bstarts(?! (?:exactly|in)\b)": lambda seen, _: (
        fact("kind", seen) in ("ok", "stall", "done")
    ),
    r"estimate (\d+)": lambda seen, match: fact("estimate", seen) == int(match[1]),
    r"(?:is|are) fitted to (?:length )?(\d+)": lambda seen, match: fact("length", seen) == int(match[1]),
    r"labelled (\S+) and (\d+) tokens": lambda seen, match: (
        (fact("label", seen), fact("tokens", seen)) == (match[1], int(match[2]))
    ),
    r"starts with (\d+) blocks|on (292) blocks": lambda seen, match: (
        fact("blocks", seen) == int(match[1] or match[2])
    ),
    r"with one block to hand out": lambda seen, _: fact("usable", seen) == 1,
    r"no block to hand out|null block alone": lambda seen, _: fact("usable", seen) == 0,
    r"starts with a warning": lambda seen, _: (
        fact("warnings", seen) == ["batched-tokens-exceed-seqs-times-len"]
    ),
    r"without a warning": lambda seen, _: fact("warnings", seen) == [],
    r"never admitted": lambda seen, _: fact("kind", seen) == "stall" and fact("started", seen) == {},
    r"waits for ever|never comes back|stalls": lambda seen, _: fact("kind", seen) == "stall",
    r"\bfinish(?:es)?\b": lambda seen, _: fact("kind", seen) == "done",
    r"emits (\d+)": lambda seen, match: outputs(seen) == [int(match[1])],
    r": (\d+) tokens$": lambda seen, match: outputs(seen) == [int(match[1])],
    r"takes (\d+) steps$|in (\d+) steps": lambda seen, match: (
        fact("steps", seen) == int(match[1] or match[2])
    ),
    r"no preemption": lambda seen, _: fact("preempted", seen) == [],
    r"(\d+) (?:preemptions|times)$": lambda seen, match: len(FACTS["preempted"](seen)) == int(match[1]),
    r"one preemption in step (\d+)|is preempted (?:once )?in step (\d+)": lambda seen, match: (
        steps_of("preempted", seen) == {int(match[1] or match[2])} and len(FACTS["preempted"](seen)) == 1
    ),
    r"resumes in step (\d+)": lambda seen, match: steps_of("resumed", seen) == {int(match[1])},
    r"preempts itself": lambda seen, _: len(FACTS["preempted"](seen)) >= 1,
    r"(?:reads|hits|share) (\d+) tokens|with (\d+) cached|share (\d+) of|so (\d+) of": lambda seen, match: (
        int(next(group for group in match.groups() if group))
        in {tokens for _, tokens in FACTS["cached"](seen)}
        and (match[1] is None or hits(seen) == int(match[1]))
    ),
    r"share nothing|hits nothing|shares nothing|computed again$": lambda seen, _: (
        FACTS["cached"](seen)[1][1] == 0
    ),
    r"(?:starts|start|starts in it,) in step (\d+)": lambda seen, match: (
        int(match[1]) in FACTS["started"](seen).values()
    ),
    r"arrives in step (\d+) starts in it": lambda seen, match: FACTS["started"](seen)["r1"] == int(match[1]),
    r"waits until step (\d+)": lambda seen, match: int(match[1]) in FACTS["started"](seen).values(),
    r"for no step": lambda seen, _: FACTS["started"](seen)["b"] == 1,
    r"while the other runs": lambda seen, _: (
        FACTS["started"](seen)["b"] == FACTS["finished"](seen)["a"][0] + 1
    ),
    r"start together": lambda seen, _: len(set(FACTS["started"](seen).values())) == 1,
    r"one after the other": lambda seen, _: len(set(FACTS["started"](seen).values())) == 2,
    r"get ([\d, ]+) tokens in step 0": lambda seen, match: (
        [tokens for tokens in map(int, match[1].split(",")) if tokens]
        == [tokens for _, tokens in seen.steps[0].scheduled]  # type: ignore[union-attr]
    ),
    r"next blocks are ([\d, ]+)": lambda seen, match: (
        FACTS["first blocks"](seen)["next"] == [int(block) for block in match[1].split(",")]
    ),
    r"here (r\d)": lambda seen, match: FACTS["preempted"](seen)[0][1] == match[1],
    r"(?:ends|finishes) by (length|stop)$": lambda seen, match: (
        {reason for _, reason in FACTS["finished"](seen).values()} == {match[1]}
    ),
}


@pytest.fixture(scope="module")
def played(suite: list[Case], play_oracle: PlayOracle) -> list[tuple[Case, Observation]]:
    return [(case, play_oracle(case)) for case in suite if case.scenario.level != "serve"]


@pytest.mark.parametrize("claim", CLAIMS)
def test_what_titles_claim_is_what_upstream_does(played: list[tuple[Case, Observation]], claim: str) -> None:
    matched = [(case, seen, match) for case, seen in played if (match := re.search(claim, case.title))]

    assert matched, "no title makes this claim"
    assert [case.id for case, seen, match in matched if not CLAIMS[claim](seen, match)] == []


def test_every_boundary_is_exactly_where_its_title_says(played: list[tuple[Case, Observation]]) -> None:
    sides = set()
    for case, seen in played:
        match = re.search(r"of (\d+) on (\d+) blocks of 16 .* exactly if it needs at most (\d+)", case.title)
        if match is None:
            continue
        length, _, most = map(int, match.groups())
        fits = -(-length // 16) <= most
        sides.add((case.scenario.level, fits))

        assert (FACTS["kind"](seen) in ("ok", "done")) is fits, case.id
    assert sides == {("plan", True), ("plan", False), ("schedule", True), ("schedule", False)}


def test_nothing_is_unrecognised_and_no_side_raises_unless_its_title_says_so(
    played: list[tuple[Case, Observation]],
) -> None:
    for case, seen in played:
        assert "unrecognised" not in repr(seen), case.id
        assert (FACTS["kind"](seen) == "error") == ("raises" in case.title), case.id

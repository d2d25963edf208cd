"""Takes turns: every round gives all sides the same fresh prompts, in an order that moves on by one each round.

A rate exists for a side only if every one of its rounds was complete (engine.throughput); ratios are taken within
a round, so that a machine that is busy for a while does not decide them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from engine.throughput import IncompleteRunError, RequestRun, require_complete_request_set
from parity.bench.figures import OURS, Cell, Spread
from parity.bench.side import Answer, GenerateSide, SideFailed

Prompts = list[list[int]]
Make = Callable[[int], Prompts]  # from a round's number, -1 for the warm-up
Say = Callable[[str], None]
WARM_UP_TOKENS = 2


def random_prompts(seed: str, count: int, length: int, vocab_size: int) -> Prompts:
    """`count` prompts of `length` random ids; the same for the same seed, whatever the process."""
    chance = random.Random(seed)
    return [[chance.randrange(vocab_size) for _ in range(length)] for _ in range(count)]


def sharing_prompts(seed: str, count: int, shared: int, own: int, vocab_size: int) -> Prompts:
    """`count` prompts of which the first `shared` ids are the same and the last `own` ids are not."""
    (prefix,) = random_prompts(f"{seed} prefix", 1, shared, vocab_size)
    return [[*prefix, *rest] for rest in random_prompts(seed, count, own, vocab_size)]


def rate_of(answer: Answer, sent: int, max_tokens: int) -> float:
    """Generated tokens a second, prefill included. Raises IncompleteRunError unless every request completed."""
    runs = [
        RequestRun(str(index), reason, len(tokens), max_tokens)
        for index, (tokens, reason) in enumerate(zip(answer.tokens, answer.finish_reasons, strict=True))
    ]
    return require_complete_request_set(runs, sent).tokens_per_second(answer.seconds)


def measure(
    sides: Sequence[GenerateSide], dtype: str, batch: int, make: Make, max_tokens: int, rounds: int, say: Say
) -> Cell:
    """One cell: a warm-up a side, then `rounds` rounds. A side that fails once has no rate in this cell."""
    rates: dict[str, list[float]] = {side.name: [] for side in sides}
    faults: dict[str, str] = {}
    same = compared = 0
    for side in sides:
        _ask(side, make(-1), WARM_UP_TOKENS, faults)
    for number in range(rounds):
        prompts = make(number)
        answers: dict[str, Answer] = {}
        for side in _turned(sides, number):
            asked = _ask(side, prompts, max_tokens, faults)
            if asked is not None:
                answers[side.name], rate = asked
                rates[side.name].append(rate)
        shown = ", ".join(f"{name} {rates[name][-1]:.1f}" for name in rates if name in answers)
        say(f"{dtype}, batch {batch}, round {number + 1} of {rounds}: {shown or 'no rate'}")
        if len(answers) == len(sides):
            compared += len(prompts)
            same += _same(list(answers.values()))
    whole = {name: values for name, values in rates.items() if name not in faults}
    for name, fault in faults.items():
        say(f"{dtype}, batch {batch}: no rate for {name}: {fault}")
    return Cell(
        dtype=dtype,
        batch=batch,
        rates={name: Spread.of(values) for name, values in whole.items()},
        ratios=_ratios(whole),
        faults=faults,
        same=same,
        compared=compared,
    )


def _ask(
    side: GenerateSide, prompts: Prompts, max_tokens: int, faults: dict[str, str]
) -> tuple[Answer, float] | None:
    """The side's answer and its rate; null once the side has failed, and `faults` then says how."""
    if side.name in faults:
        return None
    try:
        answer = side.generate(prompts, max_tokens)
        return answer, rate_of(answer, len(prompts), max_tokens)
    except (SideFailed, IncompleteRunError) as error:
        faults[side.name] = str(error)
        return None


def _turned(sides: Sequence[GenerateSide], number: int) -> list[GenerateSide]:
    turn = number % len(sides)
    return [*sides[turn:], *sides[:turn]]


def _same(answers: Sequence[Answer]) -> int:
    rows = zip(*(answer.tokens for answer in answers), strict=True)
    return sum(all(row == first for row in rest) for first, *rest in rows)


def _ratios(rates: Mapping[str, Sequence[float]]) -> dict[str, Spread]:
    """Ours over each other side, round by round."""
    ours = rates.get(OURS)
    if ours is None:
        return {}
    return {
        name: Spread.of([mine / other for mine, other in zip(ours, theirs, strict=True)])
        for name, theirs in rates.items()
        if name != OURS
    }

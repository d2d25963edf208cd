"""Sides take turns on the same fresh prompts; a rate needs a complete run, a ratio needs both rates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from parity.bench.figures import OURS, TRANSFORMERS, UPSTREAM, Cell, Spread
from parity.bench.rounds import WARM_UP_TOKENS, measure, random_prompts, rate_of, sharing_prompts
from parity.bench.side import Answer, Ready, SideFailed

NEW = 4
Vice = Callable[[int, Answer], Answer]


class Fake:
    """Answers each call with `seconds` of its list in turn, the warm-up first; `vice` spoils an answer."""

    def __init__(
        self, name: str, seconds: Sequence[float], calls: list[str] | None = None, vice: Vice | None = None
    ) -> None:
        self.name = name
        self.asked: list[tuple[Sequence[Sequence[int]], int]] = []
        self._seconds = list(seconds)
        self._calls = calls if calls is not None else []
        self._vice = vice or (lambda _number, answer: answer)

    def ready(self) -> Ready:
        return Ready(self.name, "1", 2, 0)

    def generate(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> Answer:
        number = len(self.asked)
        self.asked.append((prompts, max_tokens))
        self._calls.append(self.name)
        whole = Answer(
            self._seconds[number],
            [[prompt[0]] * max_tokens for prompt in prompts],
            ["length"] * len(prompts),
            1,
        )
        return self._vice(number, whole)

    def close(self) -> None:
        self.asked.clear()


def make(number: int) -> list[list[int]]:
    return random_prompts(f"{number}", 2, 3, 100)


def run(*sides: Fake, rounds: int = 3, said: list[str] | None = None) -> Cell:
    say = (said if said is not None else []).append
    return measure(sides, "float32", 2, make, NEW, rounds, say)


def test_each_round_begins_with_another_side() -> None:
    calls: list[str] = []

    run(*(Fake(name, [1.0] * 4, calls) for name in "abc"))

    assert "".join(calls) == "abc" + "abc" + "bca" + "cab"


def test_all_sides_get_the_same_prompts_and_no_round_repeats_another() -> None:
    ours, theirs = Fake(OURS, [1.0] * 4), Fake(UPSTREAM, [1.0] * 4)

    run(ours, theirs)

    assert ours.asked == theirs.asked
    assert [tokens for _, tokens in ours.asked] == [WARM_UP_TOKENS, NEW, NEW, NEW]
    assert len({tuple(map(tuple, prompts)) for prompts, _ in ours.asked}) == 4


def test_a_rate_is_all_new_tokens_over_the_whole_time_without_the_warm_up() -> None:
    cell = run(Fake(OURS, [100.0, 1.0, 2.0, 4.0]))

    assert cell.rates[OURS] == Spread(median=8 / 2, low=8 / 4, high=8 / 1)


def test_a_ratio_is_taken_within_a_round() -> None:
    ours = Fake(OURS, [1.0, 1.0, 10.0, 4.0])
    theirs = Fake(UPSTREAM, [1.0, 2.0, 20.0, 2.0])

    cell = run(ours, theirs)

    assert cell.ratios == {UPSTREAM: Spread(median=2.0, low=0.5, high=2.0)}


def test_requests_with_the_same_tokens_everywhere_are_counted() -> None:
    def other(_number: int, answer: Answer) -> Answer:
        return Answer(answer.seconds, [answer.tokens[0], [7] * len(answer.tokens[1])], ["length"] * 2, 1)

    cell = run(Fake(OURS, [1.0] * 4), Fake(UPSTREAM, [1.0] * 4, vice=other))

    assert (cell.same, cell.compared) == (3, 6)


def truncated(number: int, answer: Answer) -> Answer:
    tokens = [answer.tokens[0][:-1], *answer.tokens[1:]] if number == 2 else answer.tokens
    return Answer(answer.seconds, tokens, answer.finish_reasons, 1)


def lost(number: int, answer: Answer) -> Answer:
    keep = 1 if number == 2 else 2
    return Answer(answer.seconds, answer.tokens[:keep], answer.finish_reasons[:keep], 1)


def silent(number: int, answer: Answer) -> Answer:
    return Answer(answer.seconds, answer.tokens, [None, "length"] if number == 2 else ["length"] * 2, 1)


def failed(number: int, answer: Answer) -> Answer:
    return Answer(answer.seconds, answer.tokens, ["error", "length"] if number == 2 else ["length"] * 2, 1)


def raising(number: int, answer: Answer) -> Answer:
    if number == 2:
        raise SideFailed("upstream ended")
    return answer


@pytest.mark.parametrize(
    ("vice", "reason"),
    [
        (truncated, "request 0 was truncated: 3 of 4 tokens"),
        (lost, "1 of 2 requests are accounted for"),
        (silent, "request 0 was silent"),
        (failed, "request 0 ended by error"),
        (raising, "upstream ended"),
    ],
)
def test_a_side_with_one_incomplete_round_has_no_rate_and_is_not_asked_again(vice: Vice, reason: str) -> None:
    said: list[str] = []
    theirs = Fake(UPSTREAM, [1.0] * 4, vice=vice)

    cell = run(Fake(OURS, [1.0] * 4), theirs, Fake(TRANSFORMERS, [2.0] * 4), said=said)

    assert set(cell.rates) == {OURS, TRANSFORMERS}
    assert cell.ratios == {TRANSFORMERS: Spread(2.0, 2.0, 2.0)}
    assert reason in cell.faults[UPSTREAM]
    assert len(theirs.asked) == 3
    assert any(reason in line for line in said)


def test_without_ours_there_is_no_ratio() -> None:
    cell = run(Fake(OURS, [1.0] * 4, vice=truncated), Fake(UPSTREAM, [1.0] * 4))

    assert cell.ratios == {}
    assert set(cell.rates) == {UPSTREAM}


def test_a_warm_up_that_fails_costs_the_rate() -> None:
    def at_once(_number: int, _answer: Answer) -> Answer:
        raise SideFailed("no weights")

    cell = run(Fake(OURS, [1.0] * 4), Fake(UPSTREAM, [1.0] * 4, vice=at_once))

    assert cell.faults == {UPSTREAM: "no weights"}


def test_a_rate_of_an_answer_is_arithmetic() -> None:
    assert rate_of(Answer(0.5, [[1, 2], [3, 4]], ["length", "length"], 1), 2, 2) == 8.0


def test_prompts_are_a_function_of_the_seed() -> None:
    prompts = random_prompts("a", 3, 5, 10)

    assert prompts == random_prompts("a", 3, 5, 10) != random_prompts("b", 3, 5, 10)
    assert [len(prompt) for prompt in prompts] == [5, 5, 5]
    assert all(0 <= token < 10 for prompt in prompts for token in prompt)


def test_sharing_prompts_have_one_prefix_and_ends_of_their_own() -> None:
    prompts = sharing_prompts("a", 4, 6, 3, 1000)

    assert {tuple(prompt[:6]) for prompt in prompts} == {tuple(prompts[0][:6])}
    assert len({tuple(prompt[6:]) for prompt in prompts}) == 4
    assert [len(prompt) for prompt in prompts] == [9] * 4
    assert prompts[0][:6] != sharing_prompts("b", 4, 6, 3, 1000)[0][:6]

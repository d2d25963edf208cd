"""Choosing tokens: each rule against arithmetic on four or five logits, then the twins against each other."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import torch

from engine.sampler import Sampler, SamplingState, score
from engine.sampling import SamplingParams


def state(output: list[int] | None = None, prompt: list[int] | None = None, **params: Any) -> SamplingState:
    held_back = params.pop("held_back", ())
    made = SamplingState(SamplingParams(**{"temperature": 0.0} | params), prompt or [0], held_back)
    made.output = output or []
    return made


def choose(logits: list[float], *states: SamplingState, plain: bool = False) -> list[int]:
    rows = torch.tensor([logits] * len(states))
    return Sampler(plain=plain).sample(rows, states).token_ids


def shares(logits: list[float], draws: int = 4000, **params: Any) -> list[float]:
    """How often each token is drawn."""
    chosen = Sampler(seed=1).sample(torch.tensor([logits] * draws), [state(**params)] * draws).token_ids
    return [chosen.count(token) / draws for token in range(len(logits))]


def test_greedy_takes_the_best_and_the_first_of_equals() -> None:
    assert choose([1.0, 3.0, 2.0], state()) == [1]
    assert choose([1.0, 3.0, 3.0], state()) == [1]


def test_draws_follow_the_softmax_of_logits_over_temperature() -> None:
    logits = [math.log(0.5), math.log(0.3), math.log(0.2)]

    assert shares(logits, temperature=1.0) == pytest.approx([0.5, 0.3, 0.2], abs=0.03)
    squared = [0.25 / 0.38, 0.09 / 0.38, 0.04 / 0.38]
    assert shares(logits, temperature=0.5) == pytest.approx(squared, abs=0.03)


def test_top_k_keeps_the_best_and_what_equals_the_last_of_them() -> None:
    assert shares([0.0, 2.0, 2.0, 1.0], temperature=1.0, top_k=2) == pytest.approx([0, 0.5, 0.5, 0], abs=0.03)
    assert shares([0.0, 2.0, 2.0, 1.0], temperature=1.0, top_k=1) == pytest.approx([0, 0.5, 0.5, 0], abs=0.03)
    assert min(shares([0.0, 0.1, 0.2, 0.3], temperature=1.0, top_k=-1)) > 0


def test_top_p_keeps_the_smallest_set_that_reaches_the_mass() -> None:
    logits = [math.log(share) for share in (0.1, 0.4, 0.3, 0.2)]

    assert shares(logits, temperature=1.0, top_p=0.65) == pytest.approx([0, 4 / 7, 3 / 7, 0], abs=0.03)
    assert shares(logits, temperature=1.0, top_p=1e-9) == [0, 1, 0, 0]


def test_top_p_counts_the_mass_that_top_k_left() -> None:
    """Of 0.4 and 0.3 the first holds 4/7: enough for 0.57, not for 0.58."""
    logits = [math.log(share) for share in (0.1, 0.4, 0.3, 0.2)]

    assert shares(logits, temperature=1.0, top_k=2, top_p=0.57)[2] == 0
    assert shares(logits, temperature=1.0, top_k=2, top_p=0.58)[2] > 0


def test_min_p_is_relative_to_the_likeliest_after_temperature() -> None:
    logits = [math.log(0.6), math.log(0.3), math.log(0.1)]

    assert shares(logits, temperature=1.0, min_p=0.4) == pytest.approx([2 / 3, 1 / 3, 0], abs=0.03)
    # At 0.5 the shares are 0.36 : 0.09, a quarter.
    assert shares(logits, temperature=0.5, min_p=0.4) == [1, 0, 0]


def test_the_repetition_penalty_divides_what_is_positive_and_multiplies_what_is_negative() -> None:
    assert choose([4.0, 3.0, 0.0], state(prompt=[0], repetition_penalty=1.5)) == [1]
    assert choose([4.0, 3.0, 0.0], state(prompt=[2], output=[0], repetition_penalty=1.5)) == [1]
    assert choose([-1.0, -1.4, -9.0], state(prompt=[0], repetition_penalty=1.5)) == [1]
    assert choose([-1.0, -1.6, -9.0], state(prompt=[0], repetition_penalty=1.5)) == [0]


def test_frequency_and_presence_penalties_count_the_output_only() -> None:
    twice = [0, 0]

    assert choose([3.0, 2.1], state(output=twice, frequency_penalty=0.5)) == [1]
    assert choose([3.0, 1.9], state(output=twice, frequency_penalty=0.5)) == [0]
    assert choose([3.0, 2.1], state(output=twice, presence_penalty=1.0)) == [1]
    assert choose([3.0, 1.9], state(output=twice, presence_penalty=1.0)) == [0]
    assert choose([3.0, 2.9], state(prompt=twice, presence_penalty=2.0, frequency_penalty=2.0)) == [0]


def test_a_bias_is_added_before_penalties() -> None:
    assert choose([1.0, 0.0], state(logit_bias={1: 1.5})) == [1]
    # (0 + 3) / 2 = 1.5 is above 1.4; (0 / 2) + 3 would be as well, but (1.4 + 0) / 1 is not.
    assert choose([1.6, 0.0], state(prompt=[1], logit_bias={1: 3.0}, repetition_penalty=2.0)) == [0]


def test_what_ends_a_request_is_held_back_until_min_tokens() -> None:
    held = {"held_back": (1, 7, -4, 2**70), "min_tokens": 2}

    assert choose([0.0, 9.0, 1.0], state(**held)) == [2]
    assert choose([0.0, 9.0, 1.0], state(output=[2], **held)) == [2]
    assert choose([0.0, 9.0, 1.0], state(output=[2, 2], **held)) == [1]


def test_a_negative_id_holds_back_the_token_in_that_place_from_the_end() -> None:
    """As serving/negative-stop-ids shows of upstream."""
    held = {"held_back": (-1, -2), "min_tokens": 1}

    assert choose([0.0, 9.0, 9.5], state(**held)) == [0]
    assert choose([0.0, 9.0, 9.5], state(output=[0], **held)) == [2]


def test_a_seed_gives_the_same_tokens_whatever_it_is_batched_with() -> None:
    chance = torch.Generator().manual_seed(3)
    steps = [torch.randn(3, 50, generator=chance) for _ in range(20)]

    def alone() -> list[int]:
        sampler, own = Sampler(), state(temperature=0.8, seed=5, top_p=0.9)
        return [sampler.sample(step[:1], [own]).token_ids[0] for step in steps]

    def between() -> list[int]:
        sampler, own = Sampler(seed=9), state(temperature=0.8, seed=5, top_p=0.9)
        others = [state(temperature=1.0), state(temperature=1.0, seed=6)]
        return [sampler.sample(step[[1, 0, 2]], [others[0], own, others[1]]).token_ids[1] for step in steps]

    assert alone() == alone() == between()


def test_the_engines_seed_feeds_those_that_have_none() -> None:
    rows = torch.zeros(40, 100)
    drawn = [Sampler(seed=seed).sample(rows, [state(temperature=1.0)] * 40).token_ids for seed in (1, 1, 2)]

    assert drawn[0] == drawn[1] != drawn[2]


def test_logprobs_are_raw_whatever_decides() -> None:
    logits = [math.log(share) for share in (0.1, 0.2, 0.3, 0.4)]
    biased = state(logit_bias={0: 50.0}, logprobs=2)

    sampled = Sampler().sample(torch.tensor([logits] * 3), [biased, state(), state(logprobs=0)])

    assert sampled.token_ids == [0, 3, 3]
    entry, nothing, own = sampled.logprobs
    assert nothing is None
    assert entry is not None
    assert (entry.token_id, entry.rank) == (0, 4)
    assert entry.logprob == pytest.approx(math.log(0.1))
    assert [(token, rank) for token, _, rank in entry.top] == [(3, 1), (2, 2)]
    assert [value for _, value, _ in entry.top] == pytest.approx([math.log(0.4), math.log(0.3)])
    assert own is not None
    assert (own.token_id, own.rank, own.top) == (3, 1, ())


def test_a_rank_counts_the_equals() -> None:
    (entry,) = score(torch.tensor([[1.0, 2.0, 2.0, 0.0]]), [1], 0)

    assert entry.rank == 2


def test_scoring_in_slices_is_scoring_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.randn(10, 30, generator=torch.Generator().manual_seed(0))
    whole = score(logits, list(range(10)), 3)
    monkeypatch.setattr("engine.sampler.SLICE", 3)

    assert score(logits, list(range(10)), 3) == whole


def test_the_plain_twin_chooses_the_same() -> None:
    chance = random.Random(4)
    for seed in range(30):
        logits = torch.randn(6, 40, generator=torch.Generator().manual_seed(seed))
        changes = [
            {
                "temperature": chance.choice([0.0, 0.7]),
                "seed": chance.randint(0, 99),
                "top_k": chance.choice([0, 5]),
                "top_p": chance.choice([1.0, 0.8]),
                "min_p": chance.choice([0.0, 0.1]),
                "presence_penalty": chance.choice([0.0, 1.0]),
                "repetition_penalty": chance.choice([1.0, 1.3]),
                "logprobs": chance.choice([None, 2]),
                "output": [chance.randrange(40) for _ in range(5)],
            }
            for _ in range(6)
        ]
        batched = Sampler().sample(logits, [state(**change) for change in changes])
        plain = Sampler(plain=True).sample(logits, [state(**change) for change in changes])

        assert batched.token_ids == plain.token_ids
        for one, other in zip(batched.logprobs, plain.logprobs, strict=True):
            assert (one is None) == (other is None)
            if one is not None and other is not None:
                assert one.logprob == pytest.approx(other.logprob)
                assert [top[0] for top in one.top] == [top[0] for top in other.top]


def test_the_greedy_path_is_the_general_one_and_leaves_the_logits() -> None:
    logits = torch.randn(8, 50, generator=torch.Generator().manual_seed(1))
    before = logits.clone()
    fast = Sampler().sample(logits, [state()] * 8).token_ids

    assert fast == Sampler(plain=True).sample(logits, [state()] * 8).token_ids
    assert fast == Sampler().sample(logits, [state(logit_bias={3: 0.0})] * 8).token_ids
    assert torch.equal(logits, before)


def test_rows_and_states_must_be_as_many() -> None:
    with pytest.raises(ValueError, match="2 rows of logits for 1 requests"):
        Sampler().sample(torch.zeros(2, 3), [state()])

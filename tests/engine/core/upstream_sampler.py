"""Runs in the oracle's environment: the same rows through upstream's sampler and ours, differences to stdout as JSON.

On a CPU upstream draws without any seed as soon as one row of the batch has none (greedy rows included), so batches
here are all greedy or all seeded. Ours keeps a request's seed whatever it is batched with.
"""

from __future__ import annotations

import json
import random
from types import SimpleNamespace
from typing import Any

import torch
from vllm import SamplingParams as UpstreamParams
from vllm.v1.sample.logits_processor import LogitsProcessors
from vllm.v1.sample.logits_processor.builtin import (
    LogitBiasLogitsProcessor,
    MinPLogitsProcessor,
    MinTokensLogitsProcessor,
)
from vllm.v1.sample.logits_processor.interface import BatchUpdate
from vllm.v1.sample.metadata import SamplingMetadata
from vllm.v1.sample.sampler import Sampler as UpstreamSampler

from engine.sampler import Sampler, SamplingState
from engine.sampling import SamplingParams

VOCAB = 200
ENDS = (1, 2, 50)
CPU = torch.device("cpu")


def draw_batch(chance: random.Random) -> list[tuple[SamplingParams, list[int], list[int]]]:
    """Parameters in force, prompt and output of up to six requests."""
    drawn = chance.random() < 0.6
    batch = []
    for _ in range(chance.randint(1, 6)):
        params = SamplingParams(
            temperature=chance.choice([0.004, 0.7, 1.3]) if drawn else 0.0,
            seed=chance.randint(0, 10**6),
            top_k=chance.choice([0, 5, 50]),
            top_p=chance.choice([1.0, 0.8, 0.3]),
            min_p=chance.choice([0.0, 0.1]),
            presence_penalty=chance.choice([0.0, 1.0, -1.5]),
            frequency_penalty=chance.choice([0.0, 0.5]),
            repetition_penalty=chance.choice([1.0, 1.3, 0.8]),
            logit_bias=chance.choice([{}, {3: 2.0, 9: -4.0}]),
            max_tokens=60,
            min_tokens=chance.choice([0, 9]),
            stop_token_ids=ENDS,
            logprobs=chance.choice([None, 0, 3]),
        )
        prompt = [chance.randrange(VOCAB) for _ in range(chance.randint(1, 20))]
        batch.append((params.validate(VOCAB, 64), prompt, [chance.randrange(VOCAB) for _ in range(5)]))
    return batch


def states_of(batch: list[tuple[SamplingParams, list[int], list[int]]]) -> list[SamplingState]:
    states = []
    for params, prompt, output in batch:
        state = SamplingState(params, prompt, ENDS)
        state.output = list(output)
        states.append(state)
    return states


def metadata(states: list[SamplingState]) -> SamplingMetadata:
    """What upstream's model runner would hand to its sampler for these rows."""
    asked = [state.params for state in states]
    config = SimpleNamespace(scheduler_config=SimpleNamespace(max_num_seqs=32))
    processors = [
        kind(config, CPU, False)
        for kind in (MinPLogitsProcessor, LogitBiasLogitsProcessor, MinTokensLogitsProcessor)
    ]
    added = []
    for row, state in enumerate(states):
        p = state.params
        theirs = UpstreamParams(
            temperature=p.temperature, min_p=p.min_p, min_tokens=p.min_tokens, max_tokens=60,
            stop_token_ids=list(p.stop_token_ids), logit_bias=dict(p.logit_bias) or None,
        )  # fmt: skip
        added.append((row, theirs, list(state.prompt), state.output))
    for processor in processors:
        processor.update_state(BatchUpdate(batch_size=len(states), removed=[], added=added, moved=[]))
    prompts = torch.full((len(states), max(len(state.prompt) for state in states)), VOCAB)
    for row, state in enumerate(states):
        prompts[row, : len(state.prompt)] = torch.tensor(state.prompt)
    greedy = asked[0].greedy
    wanted = [p.logprobs for p in asked if p.logprobs is not None]
    return SamplingMetadata(
        temperature=None if greedy else torch.tensor([p.temperature for p in asked]),
        all_greedy=greedy,
        all_random=not greedy,
        top_p=None if all(p.top_p == 1 for p in asked) else torch.tensor([p.top_p for p in asked]),
        top_k=None
        if all(p.top_k == 0 for p in asked)
        else torch.tensor([p.top_k or VOCAB for p in asked], dtype=torch.int32),
        generators={row: state.generator for row, state in enumerate(states) if state.generator is not None},
        max_num_logprobs=max(wanted) if wanted else None,
        no_penalties=not any(state.penalised for state in states),
        prompt_token_ids=prompts,
        frequency_penalties=torch.tensor([p.frequency_penalty for p in asked]),
        presence_penalties=torch.tensor([p.presence_penalty for p in asked]),
        repetition_penalties=torch.tensor([p.repetition_penalty for p in asked]),
        output_token_ids=[state.output for state in states],
        allowed_token_ids_mask=None,
        bad_words_token_ids={},
        logitsprocs=LogitsProcessors(processors),
    )


def compare(seed: int) -> list[dict[str, Any]]:
    """The rows of one batch in which the two differ."""
    batch = draw_batch(random.Random(seed))
    logits = torch.randn(len(batch), VOCAB, generator=torch.Generator().manual_seed(seed)) * 3
    ours = Sampler().sample(logits, states_of(batch))
    theirs = UpstreamSampler()(logits.clone(), metadata(states_of(batch)))
    tokens = theirs.sampled_token_ids.squeeze(-1).tolist()
    different = []
    for row, (mine, entry) in enumerate(zip(ours.token_ids, ours.logprobs, strict=True)):
        found: list[Any] = [mine]
        expected: list[Any] = [tokens[row]]
        if entry is not None:
            wide = 1 + len(entry.top)
            scored = theirs.logprobs_tensors
            found += [entry.rank, [entry.token_id, *(top[0] for top in entry.top)]]
            found.append([round(value, 6) for value in (entry.logprob, *(top[1] for top in entry.top))])
            expected += [int(scored.selected_token_ranks[row]), scored.logprob_token_ids[row, :wide].tolist()]
            expected.append([round(value, 6) for value in scored.logprobs[row, :wide].tolist()])
        if found != expected:
            different.append({"seed": seed, "row": row, "ours": found, "upstream": expected})
    return different


def main() -> None:
    different = [row for seed in range(200) for row in compare(seed)]
    print(json.dumps({"batches": 200, "different": different}))


if __name__ == "__main__":
    main()

"""One token a row: from the model's logits to token ids, and to logprobs where a request asked for them.

Logprobs are taken from the raw logits, before anything below (`raw_logprobs`, the mirrored version's default).
Then, in this order: minimum length, bias, penalties, the greedy choice; temperature, min-p, top-k, top-p, the draw.
Mirrors vllm/v1/sample/sampler.py::Sampler and vllm/v1/sample/logits_processor/builtin.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import torch

from engine.outputs import TokenLogprobs
from engine.sampling import SamplingParams

SLICE = 256  # positions scored at once, so that a long prompt does not double its logits


class SamplingState:
    """What sampling needs to know of one request; `output` grows with every token that it gets.

    `held_back` are the token ids that end the request: they cannot be chosen before `min_tokens` tokens.
    The generator is the request's own if it has a seed, so that a draw does not depend on its neighbours.
    """

    __slots__ = ("generator", "held_back", "output", "params", "prompt")

    def __init__(
        self,
        params: SamplingParams,
        prompt: Sequence[int],
        held_back: Sequence[int] = (),
        device: str = "cpu",
    ) -> None:
        self.params = params
        self.prompt = prompt
        self.output: list[int] = []
        self.held_back = tuple(held_back)
        self.generator: Any = None
        if params.seed is not None and not params.greedy:
            self.generator = torch.Generator(device)
            self.generator.manual_seed(params.seed)

    @property
    def too_short(self) -> bool:
        """Whether what ends the request is still held back."""
        return len(self.output) < self.params.min_tokens and bool(self.held_back)

    @property
    def penalised(self) -> bool:
        params = self.params
        return (params.repetition_penalty, params.frequency_penalty, params.presence_penalty) != (
            1.0,
            0.0,
            0.0,
        )

    @property
    def untouched(self) -> bool:
        """Whether the choice is the best raw logit, with nothing to report about it."""
        params = self.params
        return (
            params.greedy
            and params.logprobs is None
            and not params.logit_bias
            and not self.penalised
            and not self.too_short
        )


class Sampled(msgspec.Struct, frozen=True):
    """One entry a row: the token, and its logprobs or null."""

    token_ids: list[int]
    logprobs: list[TokenLogprobs | None]


class Sampler:
    """Chooses tokens. `seed` feeds the draws of requests that have none of their own.

    `plain` takes every row alone through the general path: the twin of both the batched path and the greedy one.
    """

    def __init__(self, *, seed: int = 0, device: str = "cpu", plain: bool = False) -> None:
        self.plain = plain
        self._generator = torch.Generator(device)
        self._generator.manual_seed(seed)

    def sample(self, logits: torch.Tensor, states: Sequence[SamplingState]) -> Sampled:
        """`logits` is float32 [rows, vocab], one row a state; it is left as it was. Raises ValueError for another shape."""
        if len(states) != logits.shape[0]:
            raise ValueError(f"{logits.shape[0]} rows of logits for {len(states)} requests")
        if self.plain:
            alone = [self._general(logits[row : row + 1], [state]) for row, state in enumerate(states)]
            return Sampled([s.token_ids[0] for s in alone], [s.logprobs[0] for s in alone])
        if all(state.untouched for state in states):
            return Sampled(logits.argmax(dim=-1).tolist(), [None] * len(states))
        return self._general(logits, states)

    def _general(self, raw: torch.Tensor, states: Sequence[SamplingState]) -> Sampled:
        logits = raw.to(torch.float32)
        if any(s.too_short or s.params.logit_bias or s.penalised for s in states):
            logits = logits.clone()
            for row, state in enumerate(states):
                _adjust(logits[row], state)
        tokens = logits.argmax(dim=-1)
        drawn = [row for row, state in enumerate(states) if not state.params.greedy]
        if drawn:
            chosen = logits[drawn] if len(drawn) < len(states) else logits
            tokens[drawn] = self._draw(chosen, [states[row] for row in drawn])
        return Sampled(tokens.tolist(), _logprobs(raw, tokens, states))

    def _draw(self, logits: torch.Tensor, states: Sequence[SamplingState]) -> torch.Tensor:
        """Token ids [rows], each the largest of probability over exponential noise: one draw from the row."""
        temperature = torch.tensor([s.params.temperature for s in states], device=logits.device)
        logits = logits / temperature.unsqueeze(1)
        _mask_min_p(logits, states)
        _mask_top(logits, states)
        weights = logits.softmax(dim=-1)
        noise = torch.empty_like(weights)
        for row, state in enumerate(states):
            noise[row].exponential_(generator=state.generator or self._generator)
        return weights.div_(noise).argmax(dim=-1)


def score(logits: torch.Tensor, targets: Sequence[int], alternatives: int) -> list[TokenLogprobs]:
    """Logprobs of `targets[i]` under `logits[i]` ([positions, vocab]), with its rank and the best alternatives.

    The rank counts the tokens that are at least as likely. Mirrors ::Sampler.gather_logprobs.
    """
    scored: list[TokenLogprobs] = []
    for start in range(0, len(targets), SLICE):
        chosen = torch.tensor(targets[start : start + SLICE], dtype=torch.int64, device=logits.device)
        logprobs = logits[start : start + SLICE].log_softmax(dim=-1, dtype=torch.float32)
        own = logprobs.gather(1, chosen.unsqueeze(1))
        ranks = (logprobs >= own).sum(dim=-1).tolist()
        best = logprobs.topk(min(alternatives, logprobs.shape[1]), dim=-1)
        rows = zip(
            chosen.tolist(),
            own.squeeze(1).tolist(),
            ranks,
            best.indices.tolist(),
            best.values.tolist(),
            strict=True,
        )
        for token, logprob, rank, ids, values in rows:
            top = tuple((i, v, place) for place, (i, v) in enumerate(zip(ids, values, strict=True), start=1))
            scored.append(TokenLogprobs(token, logprob, rank, top))
    return scored


def _logprobs(
    raw: torch.Tensor, tokens: torch.Tensor, states: Sequence[SamplingState]
) -> list[TokenLogprobs | None]:
    """Scores of the chosen tokens, for the rows that asked; each row gets as many alternatives as it asked for."""
    found: list[TokenLogprobs | None] = [None] * len(states)
    asked = {row: s.params.logprobs for row, s in enumerate(states) if s.params.logprobs is not None}
    if asked:
        rows = list(asked)
        scored = score(raw[rows], tokens[rows].tolist(), max(asked.values()))
        for row, entry in zip(rows, scored, strict=True):
            found[row] = msgspec.structs.replace(entry, top=entry.top[: asked[row]])
    return found


def _adjust(logits: torch.Tensor, state: SamplingState) -> None:
    """Minimum length, bias and penalties of one row, in place; `logits` is [vocab]."""
    vocab_size = logits.shape[0]
    if state.too_short:
        # A negative id is a place counted from the end, as upstream's index has it. One that is outside even so can never
        # be chosen: there is nothing to hold back.
        inside = [token for token in state.held_back if -vocab_size <= token < vocab_size]
        logits[inside] = -torch.inf
    bias = state.params.logit_bias
    if bias:
        logits[list(bias)] += torch.tensor(list(bias.values()), dtype=logits.dtype, device=logits.device)
    if state.penalised:
        _penalise(logits, state)


def _penalise(logits: torch.Tensor, state: SamplingState) -> None:
    """Repetition counts prompt and output; frequency and presence count the output only."""
    params, vocab_size = state.params, logits.shape[0]
    counts = torch.bincount(
        torch.tensor(state.output, dtype=torch.int64, device=logits.device), minlength=vocab_size
    )
    if params.repetition_penalty != 1.0:
        seen = torch.tensor([*state.prompt, *state.output], dtype=torch.int64, device=logits.device).unique()
        penalty = torch.tensor(params.repetition_penalty, device=logits.device)
        values = logits[seen]
        logits[seen] = values * torch.where(values > 0, 1.0 / penalty, penalty)
    logits -= params.frequency_penalty * counts
    logits -= params.presence_penalty * (counts > 0)


def _mask_min_p(logits: torch.Tensor, states: Sequence[SamplingState]) -> None:
    """Take out what is less likely than `min_p` times the likeliest token, in place."""
    if not any(state.params.min_p for state in states):
        return
    shares = torch.tensor([state.params.min_p for state in states], device=logits.device).unsqueeze(1)
    probabilities = logits.softmax(dim=-1)
    floor = probabilities.amax(dim=-1, keepdim=True) * shares
    logits.masked_fill_(probabilities < floor, -torch.inf)


def _mask_top(logits: torch.Tensor, states: Sequence[SamplingState]) -> None:
    """Take out what lies outside the best `top_k`, then outside the mass `top_p`, in place.

    Tokens as likely as the k-th stay. Mirrors vllm/v1/sample/ops/topk_topp_sampler.py::apply_top_k_top_p_pytorch.
    """
    vocab_size = logits.shape[1]
    for row, state in enumerate(states):
        params = state.params
        if 0 < params.top_k < vocab_size:
            kth = logits[row].topk(params.top_k).values[-1]
            logits[row].masked_fill_(logits[row] < kth, -torch.inf)
        if params.top_p < 1.0:
            ordered, places = logits[row].sort()
            tail = 1.0 - torch.tensor(params.top_p, device=logits.device)
            outside = ordered.softmax(dim=-1).cumsum(dim=-1) <= tail
            outside[-1] = False
            logits[row].index_fill_(0, places[outside], -torch.inf)

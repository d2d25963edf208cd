"""A request while the core has it: what was asked, who is told, and what has been said so far."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from engine.outputs import FinishReason, RequestOutput, Sink, TokenLogprobs
from engine.request import Request
from engine.sampler import SamplingState, score
from engine.sampling import SamplingParams
from engine.wire import RequestSpec

if TYPE_CHECKING:
    import torch


class CoreRequest(msgspec.Struct, frozen=True):
    """One choice for the core to generate; `params.n` is 1 by now, and `params` are validated.

    `eos_token_id` ends a request unless `params.ignore_eos`; `more_eos_token_ids` are those that the model's
    generation config has besides, and end it like stop ids.
    """

    id: str
    prompt: tuple[int, ...]
    params: SamplingParams
    eos_token_id: int | None = None
    more_eos_token_ids: tuple[int, ...] = ()
    priority: int = 0
    cache_salt: str | None = None


class Live:
    """A request inside the core. Touched by the core's thread, or under the core's lock."""

    __slots__ = (
        "added_at",
        "id",
        "num_cached",
        "num_prompt",
        "preemptions",
        "prompt_logprobs",
        "request",
        "sink",
        "state",
    )

    def __init__(
        self, asked: CoreRequest, sink: Sink, arrival: int, hash_block_size: int | None, device: str
    ) -> None:
        params = asked.params
        self.id = asked.id
        self.sink = sink
        self.added_at = time.monotonic()
        self.num_cached: int | None = None  # tokens; null until first admitted
        self.num_prompt = len(asked.prompt)
        self.preemptions = 0  # since the last token: upstream counts them with the next output, if one comes
        self.request = Request(_spec(asked, arrival), hash_block_size)
        self.state = SamplingState(params, asked.prompt, _held_back(asked), device)
        self.prompt_logprobs: list[TokenLogprobs | None] | None = None
        if params.prompt_logprobs is not None:
            self.prompt_logprobs = [None] * self.num_prompt

    def wants_prompt_logits(self, start: int) -> bool:
        """Whether a row that begins at position `start` predicts a prompt token whose logprob is wanted."""
        return self.prompt_logprobs is not None and start < self.num_prompt - 1

    def keep_prompt_logprobs(self, start: int, logits: torch.Tensor) -> None:
        """Score the prompt tokens that `logits` ([tokens from position `start`, vocab]) predict."""
        kept = self.prompt_logprobs
        if kept is None:
            return
        end = min(start + logits.shape[0], self.num_prompt - 1)
        targets = self.state.prompt[start + 1 : end + 1]
        alternatives = self.state.params.prompt_logprobs or 0
        kept[start + 1 : end + 1] = score(logits[: end - start], targets, alternatives)

    def token(
        self, token_id: int, logprobs: TokenLogprobs | None, finish_reason: FinishReason | None
    ) -> RequestOutput:
        """What a new token adds. Prompt logprobs go with the first one, and are not told again."""
        prompt_logprobs, self.prompt_logprobs = self.prompt_logprobs, None
        return RequestOutput(
            request_id=self.id,
            token_ids=(token_id,),
            logprobs=None if logprobs is None else (logprobs,),
            prompt_logprobs=None if prompt_logprobs is None else tuple(prompt_logprobs),
            finish_reason=finish_reason,
            stop_reason=self.request.stop_reason,
            num_cached_tokens=self.num_cached or 0,
        )

    def end(self, reason: FinishReason, error: str | None = None) -> RequestOutput:
        """An end without a token: aborted or failed."""
        return RequestOutput(
            self.id, (), finish_reason=reason, num_cached_tokens=self.num_cached or 0, error=error
        )


def _spec(asked: CoreRequest, arrival: int) -> RequestSpec:
    """The request as the scheduler knows it; nothing is forced. Mirrors ::SamplingParams.update_from_generation_config."""
    params = asked.params
    more = () if params.ignore_eos else _others(asked)
    return RequestSpec(
        id=asked.id,
        at=0,
        arrival=arrival,
        prompt=list(asked.prompt),
        max_tokens=params.max_tokens,
        min_tokens=params.min_tokens,
        output=[],
        eos_token_id=asked.eos_token_id,
        ignore_eos=params.ignore_eos,
        stop_token_ids=[*params.stop_token_ids, *more],
        priority=asked.priority,
        cache_salt=asked.cache_salt,
        prompt_logprobs=params.prompt_logprobs,
    )


def _held_back(asked: CoreRequest) -> Sequence[int]:
    """What cannot be chosen before `min_tokens`: stop ids and every EOS, ignored ones included."""
    eos = () if asked.eos_token_id is None else (asked.eos_token_id,)
    return sorted({*asked.params.stop_token_ids, *eos, *_others(asked)})


def _others(asked: CoreRequest) -> tuple[int, ...]:
    return tuple(token for token in asked.more_eos_token_ids if token != asked.eos_token_id)

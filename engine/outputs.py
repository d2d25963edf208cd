"""What the core says of a request, step by step; plain values that may cross threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

FinishReason = Literal["stop", "length", "abort", "error"]


class TokenLogprobs(msgspec.Struct, frozen=True):
    """The chosen token's logprob and the best alternatives, best first: (token id, logprob, rank from 1)."""

    token_id: int
    logprob: float
    rank: int
    top: tuple[tuple[int, float, int], ...]


class RequestOutput(msgspec.Struct, frozen=True):
    """What one step adds to one request.

    `logprobs` has one entry for each of `token_ids`, or is null where none were asked for. `prompt_logprobs`
    comes with the first output: null for the first token, then one entry a prompt token.
    """

    request_id: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprobs, ...] | None = None
    prompt_logprobs: tuple[TokenLogprobs | None, ...] | None = None
    finish_reason: FinishReason | None = None
    stop_reason: int | str | None = None
    num_cached_tokens: int = 0
    error: str | None = None


Sink = Callable[[RequestOutput], FinishReason | None]
"""Hears what a request's steps add, and answers why it has ended for its client; null leaves that to the core.

A reason where the core has none ends the request; one where the core has another is what counts.
"""

"""What goes out, as data: upstream's keys in upstream's order.

A field that is UNSET is not in the JSON at all; null is there as null. Upstream's chunks leave out what was never
set, its whole responses leave out nothing.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

Ids = tuple[int, ...]
PromptLogprobs = list[dict[str, dict[str, Any]] | None]


class Usage(msgspec.Struct, frozen=True):
    """Tokens of a request, over all its choices."""

    prompt_tokens: int
    total_tokens: int
    completion_tokens: int
    prompt_tokens_details: UnsetType | None = UNSET


def usage(prompt: int, completion: int, *, whole: bool = False) -> Usage:
    """Usage of a chunk, or of a whole response, which has a place for details as well."""
    return Usage(prompt, prompt + completion, completion, None if whole else UNSET)


class CompletionLogprobs(msgspec.Struct, frozen=True):
    """One entry a token in each list; the first prompt token has no logprob."""

    text_offset: list[int]
    token_logprobs: list[float | None]
    tokens: list[str]
    top_logprobs: list[dict[str, float] | None]


class CompletionChoice(msgspec.Struct, frozen=True):
    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: str | None
    stop_reason: int | str | None
    token_ids: Ids | None
    prompt_logprobs: PromptLogprobs | None
    prompt_token_ids: Ids | None
    routed_experts: None = None


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: str = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    service_tier: None = None
    system_fingerprint: str
    usage: Usage
    kv_transfer_params: None = None
    ec_transfer_params: None = None
    metrics: None = None


class CompletionChunkChoice(msgspec.Struct, frozen=True):
    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: str | None
    stop_reason: int | str | None
    prompt_token_ids: Ids | None
    token_ids: Ids | None


class CompletionChunk(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: str = "text_completion"
    created: int
    model: str
    choices: list[CompletionChunkChoice]
    usage: Usage | UnsetType = UNSET
    system_fingerprint: str | UnsetType = UNSET


class ChatTop(msgspec.Struct, frozen=True):
    """An alternative at a position; `bytes` is its text in UTF-8."""

    token: str
    logprob: float
    bytes: list[int] | None


class ChatToken(msgspec.Struct, frozen=True):
    token: str
    logprob: float
    bytes: list[int] | None
    top_logprobs: list[ChatTop]


class ChatLogprobs(msgspec.Struct, frozen=True):
    content: list[ChatToken]


class Message(msgspec.Struct, frozen=True):
    role: str
    content: str
    refusal: None = None
    annotations: None = None
    audio: None = None
    function_call: None = None
    reasoning: None = None


class ChatChoice(msgspec.Struct, frozen=True):
    index: int
    message: Message
    logprobs: ChatLogprobs | None
    finish_reason: str | None
    stop_reason: int | str | None
    token_ids: Ids | None
    routed_experts: None = None


class Chat(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: str = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    service_tier: None = None
    system_fingerprint: str
    usage: Usage
    prompt_logprobs: PromptLogprobs | None
    prompt_token_ids: Ids | None
    prompt_text: str | None
    kv_transfer_params: None = None
    ec_transfer_params: None = None
    metrics: None = None


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    role: str | UnsetType = UNSET
    content: str


class ChatChunkChoice(msgspec.Struct, frozen=True):
    index: int
    delta: Delta
    logprobs: ChatLogprobs | None = None
    finish_reason: str | None = None
    stop_reason: int | str | UnsetType | None = UNSET
    token_ids: Ids | UnsetType | None = UNSET


class ChatChunk(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: str = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: Usage | UnsetType = UNSET
    prompt_token_ids: Ids | UnsetType | None = UNSET
    prompt_text: str | UnsetType | None = UNSET
    system_fingerprint: str | UnsetType = UNSET


class Tokens(msgspec.Struct, frozen=True):
    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None


def encode(value: msgspec.Struct) -> bytes:
    """JSON; a number that is not finite is null."""
    return msgspec.json.encode(value)

"""What a client may ask of sampling: one frozen value, validated once, before the request is queued."""

from __future__ import annotations

import msgspec


class RequestRefused(ValueError):
    """A request that cannot be served as it is; `param` names the field at fault, as upstream does."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class SamplingParams(msgspec.Struct, frozen=True):
    """Mirrors vllm/sampling_params.py::SamplingParams for the fields that the engine honours.

    `logprobs` and `prompt_logprobs` are the number of alternatives (0: the chosen token's only; null: none).
    `max_tokens` is already the smallest of the client's, the operator's and what the length leaves.
    """

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0  # 0 or -1: all
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    max_tokens: int = 16
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    logit_bias: dict[int, float] = {}
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True

"""From a body to sampling parameters: the model's and the operator's defaults, and how many tokens there may be.

Upstream checks in two moments, and a client that streams can tell them apart: what is wrong in itself is refused
before the response starts (`early`), what only the engine knows (vocabulary, most logprobs) as a frame of a stream
that has started (SamplingParams.validate on what `early` returned).
Mirrors CompletionRequest.to_sampling_params and vllm/entrypoints/serve/utils/api_utils.py::get_max_tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from engine.sampling import RequestRefused, SamplingParams
from engine.server.requests import ChatBody, CompletionBody

Number = TypeVar("Number", int, float)


class Defaults(msgspec.Struct, frozen=True):
    """What applies where a client says nothing: the model's generation config, overridden by the operator's.

    `max_tokens` is the default of the model or the operator, `ceiling` what the operator allows at most.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    max_tokens: int | None = None
    ceiling: int | None = None


def defaults_from(of_model: Mapping[str, float], ceiling: int | None) -> Defaults:
    """Defaults from sampling parameters by name. Raises ValueError for one that has the wrong type."""
    try:
        return msgspec.convert({**of_model, "ceiling": ceiling}, Defaults)
    except msgspec.ValidationError as error:
        raise ValueError(f"generation config: {error}") from error


def early(
    body: CompletionBody | ChatBody,
    max_tokens: int,
    defaults: Defaults,
    logprobs: int | None,
    prompt_logprobs: int | None,
    vocab_size: int,
    max_model_len: int,
) -> SamplingParams:
    """The parameters that a body asks for. Raises RequestRefused for what is wrong whatever the model is."""
    params = SamplingParams(
        n=1 if body.n is None else body.n,
        temperature=_or(body.temperature, defaults.temperature),
        top_p=_or(body.top_p, defaults.top_p),
        top_k=_or(body.top_k, defaults.top_k),
        min_p=_or(body.min_p, defaults.min_p),
        presence_penalty=_or(body.presence_penalty, 0.0),
        frequency_penalty=_or(body.frequency_penalty, 0.0),
        repetition_penalty=_or(body.repetition_penalty, defaults.repetition_penalty),
        seed=body.seed,
        max_tokens=max_tokens,
        min_tokens=body.min_tokens,
        stop=_texts(body.stop),
        stop_token_ids=tuple(body.stop_token_ids or ()),
        include_stop_str_in_output=body.include_stop_str_in_output,
        ignore_eos=body.ignore_eos,
        logit_bias=_bias(body.logit_bias),
        logprobs=logprobs,
        prompt_logprobs=prompt_logprobs,
        skip_special_tokens=body.skip_special_tokens,
        spaces_between_special_tokens=body.spaces_between_special_tokens,
    )
    anywhere = msgspec.structs.replace(params, logprobs=None, prompt_logprobs=None, logit_bias={})
    anywhere.validate(vocab_size, max_model_len)
    return params


def _or(value: Number | None, default: Number) -> Number:
    return default if value is None else value


def _texts(stop: str | list[str] | None) -> tuple[str, ...]:
    return (stop,) if isinstance(stop, str) else tuple(stop or ())


def _bias(given: Mapping[str, float] | None) -> dict[int, float]:
    bias: dict[int, float] = {}
    for key, value in (given or {}).items():
        try:
            bias[int(key)] = value
        except ValueError as error:
            raise RequestRefused(
                f"logit_bias has a key that is no token id: {key!r}", "logit_bias"
            ) from error
    return bias

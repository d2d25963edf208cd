"""What a client may ask of sampling: one frozen value, validated once, before the request is queued."""

from __future__ import annotations

import math

import msgspec

MAX_LOGPROBS = 20  # alternatives a position, as ModelConfig.max_logprobs of the mirrored version
MAX_CHOICES = 16384  # of one prompt, as VLLM_MAX_N_SEQUENCES of the mirrored version
LOWEST_TEMPERATURE = 0.01  # a smaller one that is not 0 is lifted to it
BIAS_LIMIT = 100.0


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

    @property
    def greedy(self) -> bool:
        """Whether the best token is always taken. Only an exact 0 is: validation lifts what is near it."""
        return self.temperature == 0.0

    def validate(self, vocab_size: int, max_model_len: int) -> SamplingParams:
        """The parameters in force: temperature lifted, seed -1 dropped, biases clamped, truncation off if greedy.

        Raises RequestRefused for what upstream refuses, in its order and with its `param` (often none).
        Mirrors ::SamplingParams.__post_init__ and ::SamplingParams.verify.
        """
        _check_penalties(self)
        _check_truncation(self)
        _check_lengths(self, max_model_len)
        _check_logprobs(self)
        if any(not text for text in self.stop):
            raise RequestRefused("stop cannot contain an empty string")
        if self.temperature == 0.0 and self.n > 1:
            raise RequestRefused(f"n must be 1 when sampling is greedy, got {self.n}")
        _check_vocabulary(self, vocab_size)
        return _in_force(self)

    def child(self, index: int) -> SamplingParams:
        """The parameters of the `index`-th of `n` choices: one choice, its seed moved by the index.

        Mirrors vllm/v1/engine/parallel_sampling.py::ParentRequest.get_child_info.
        """
        seed = None if self.seed is None else self.seed + index
        return msgspec.structs.replace(self, n=1, seed=seed)


def _check_penalties(params: SamplingParams) -> None:
    """A comparison that NaN fails is a refusal, so that NaN never gets past."""
    if not 1 <= params.n <= MAX_CHOICES:
        raise RequestRefused(f"n must be at least 1 and at most {MAX_CHOICES}, got {params.n}")
    for name in ("presence_penalty", "frequency_penalty"):
        value = getattr(params, name)
        if not -2.0 <= value <= 2.0:
            raise RequestRefused(f"{name} must be in [-2, 2], got {value}")
    if not 0.0 < params.repetition_penalty < math.inf:
        raise RequestRefused(
            f"repetition_penalty must be a finite number above zero, got {params.repetition_penalty}"
        )


def _check_truncation(params: SamplingParams) -> None:
    if not 0.0 <= params.temperature <= 2.0:
        raise RequestRefused(f"temperature must be in [0, 2], got {params.temperature}", "temperature")
    if not 0.0 < params.top_p <= 1.0:
        raise RequestRefused(f"top_p must be in (0, 1], got {params.top_p}", "top_p")
    if params.top_k < -1:
        raise RequestRefused(f"top_k must be 0 (all tokens) or at least 1, got {params.top_k}")
    if not 0.0 <= params.min_p <= 1.0:
        raise RequestRefused(f"min_p must be in [0, 1], got {params.min_p}")


def _check_lengths(params: SamplingParams, max_model_len: int) -> None:
    if params.max_tokens < 1:
        raise RequestRefused(f"max_tokens must be at least 1, got {params.max_tokens}", "max_tokens")
    if params.max_tokens > max_model_len:
        raise RequestRefused(
            f"max_tokens={params.max_tokens} is more than the model's length of {max_model_len}", "max_tokens"
        )
    if not 0 <= params.min_tokens <= params.max_tokens:
        raise RequestRefused(
            f"min_tokens must be at least 0 and at most max_tokens={params.max_tokens}, got {params.min_tokens}"
        )


def _check_logprobs(params: SamplingParams) -> None:
    for name in ("logprobs", "prompt_logprobs"):
        value = getattr(params, name)
        if value == -1:
            raise RequestRefused(
                f"{name}=-1 asks for the whole vocabulary, and at most {MAX_LOGPROBS} are allowed", name
            )
        if value is not None and not 0 <= value <= MAX_LOGPROBS:
            raise RequestRefused(f"{name} must be at least 0 and at most {MAX_LOGPROBS}, got {value}", name)


def _check_vocabulary(params: SamplingParams, vocab_size: int) -> None:
    outside = [token for token in params.logit_bias if not 0 <= token < vocab_size]
    if outside:
        raise RequestRefused(
            f"logit_bias names token ids outside the vocabulary of {vocab_size}: {outside[:5]}", "logit_bias"
        )


def _in_force(params: SamplingParams) -> SamplingParams:
    bias = {token: min(BIAS_LIMIT, max(-BIAS_LIMIT, value)) for token, value in params.logit_bias.items()}
    seed = None if params.seed == -1 else params.seed
    if params.temperature == 0.0:
        return msgspec.structs.replace(params, seed=seed, logit_bias=bias, top_p=1.0, top_k=0, min_p=0.0)
    temperature = max(params.temperature, LOWEST_TEMPERATURE)
    return msgspec.structs.replace(params, seed=seed, logit_bias=bias, temperature=temperature)

"""How long a request may be: the checks of prompt and output against the model's length, in upstream's order.

One place for all of them, because clients see which one fails first: too many output tokens (`max_tokens`), a text
that cannot fit whatever its tokens are (`input_text`), a prompt and its output together (`input_tokens`), then
what is left for a client who named no number.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.sampling import RequestRefused


def check_output(requested: int | None, max_model_len: int, param: str = "max_tokens") -> None:
    """Refuse more output tokens than the model's whole length; `param` is the client's name for the number.

    Mirrors vllm/renderers/params.py::TokenizeParams.__post_init__: such a request is never clamped.
    """
    if requested is not None and requested > max_model_len:
        raise RequestRefused(
            f"{param}={requested} cannot be more than the model's length of {max_model_len} tokens", param
        )


def check_text(text: str, requested: int | None, max_model_len: int, max_chars_per_token: int) -> None:
    """Refuse, without tokenising it, a text with more characters than any tokens that fit could have."""
    most = (max_model_len - (requested or 0)) * max_chars_per_token
    if len(text) > most:
        raise RequestRefused(
            f"the prompt has {len(text)} characters, more than the {most} that fit beside {requested or 0} "
            f"output tokens within the model's length of {max_model_len} tokens",
            "input_text",
        )


def check_prompt(num_tokens: int, requested: int | None, max_model_len: int) -> None:
    """Refuse a prompt that does not fit beside the output it asks for.

    Mirrors vllm/renderers/params.py::TokenizeParams._token_len_check.
    """
    total = num_tokens + (requested or 0)
    if total > max_model_len:
        raise RequestRefused(
            f"the model's length is {max_model_len} tokens, but {num_tokens} of prompt and {requested or 0} of "
            f"output make {total}",
            "input_tokens",
        )


def check_readable(prompt: Sequence[int], vocab_size: int) -> None:
    """Refuse a prompt without tokens, or with one that the model has no embedding for.

    Upstream lets an id pass that the tokenizer knows and the model does not, and ends when the model looks it up.
    Mirrors vllm/v1/engine/input_processor.py::InputProcessor._validate_model_input.
    """
    if not prompt:
        raise RequestRefused("the prompt cannot be empty")
    outside = [token for token in (min(prompt), max(prompt)) if not 0 <= token < vocab_size]
    if outside:
        raise RequestRefused(f"token id {outside[0]} is out of vocabulary")


def output_tokens(
    requested: int | None,
    num_prompt_tokens: int,
    max_model_len: int,
    default: int | None,
    ceiling: int | None,
) -> int:
    """The tokens that a request may generate: its own number or the default, under the operator's ceiling.

    Mirrors vllm/entrypoints/serve/utils/api_utils.py::get_max_tokens.
    """
    wanted = requested if requested is not None else default
    room = max_model_len - num_prompt_tokens
    return min(value for value in (room, wanted, ceiling) if value is not None)

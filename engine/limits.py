"""How long a request may be: the checks of prompt and output against the model's length, in upstream's order.

One place for all of them, because clients see which one fails first: too many output tokens (`max_tokens`), a prompt
cut to more than fits (`truncate_prompt_tokens`), a text that cannot fit whatever its tokens are (`input_text`), a
prompt and its output together (`input_tokens`), then what is left for a client who named no number, and at last what
only the engine refuses.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from engine.sampling import RequestRefused


class Room(msgspec.Struct, frozen=True):
    """What the model's length leaves for a prompt, in tokens; every check raises RequestRefused.

    `requested` are the output tokens that the client asked for (null: none named), `param` its name for the number.
    Mirrors vllm/renderers/params.py::TokenizeParams.
    """

    max_model_len: int
    requested: int | None = None
    param: str = "max_tokens"

    @property
    def max_input(self) -> int:
        """Tokens of the longest prompt that fits beside the output asked for; at least 0 after `check_output`."""
        return self.max_model_len - (self.requested or 0)

    @property
    def _known(self) -> str:
        """The sentence of upstream by which client libraries know that a request is too long."""
        return f"This model's maximum context length is {self.max_model_len} tokens."

    def max_chars(self, per_token: int) -> int:
        """Characters of the longest text that could fit, if no token has more than `per_token`."""
        return self.max_input * per_token

    def check_output(self) -> None:
        """Refuse more output tokens than the model's whole length: such a request is never clamped.

        Mirrors ::TokenizeParams.__post_init__.
        """
        if self.max_input < 0:
            raise RequestRefused(
                f"{self.param}={self.requested} cannot be more than the model's length of "
                f"{self.max_model_len} tokens",
                self.param,
            )

    def check_truncation(self, keep: int) -> None:
        """Refuse to cut a prompt to `keep` tokens that do not fit; -1 stands for as many as do."""
        if keep > self.max_input:
            raise RequestRefused(
                f"truncate_prompt_tokens={keep} is more than the {self.max_input} tokens beside the "
                f"output of {self.param}",
                "truncate_prompt_tokens",
            )

    def check_text(self, text: str, max_chars_per_token: int) -> None:
        """Refuse, without tokenising it, a text with more characters than any tokens that fit could have."""
        most = self.max_chars(max_chars_per_token)
        if len(text) > most:
            raise RequestRefused(
                f"{self._known} The prompt has {len(text)} characters, more than the {most} that fit beside "
                f"{self.requested or 0} output tokens: send a shorter one or ask for fewer tokens",
                "input_text",
            )

    def check_prompt(self, num_tokens: int) -> None:
        """Refuse a prompt that does not fit beside the output it asks for.

        Mirrors ::TokenizeParams._token_len_check.
        """
        if num_tokens > self.max_input:
            output = self.requested or 0
            raise RequestRefused(
                f"{self._known} The prompt has {num_tokens} tokens, which with {output} of output make "
                f"{num_tokens + output}: send a shorter one or ask for fewer tokens",
                "input_tokens",
            )

    def granted(self, num_prompt_tokens: int, default: int | None, ceiling: int | None) -> int:
        """The tokens that a request may generate: its own number or the default, under the operator's ceiling.

        Mirrors vllm/entrypoints/serve/utils/api_utils.py::get_max_tokens.
        """
        wanted = self.requested if self.requested is not None else default
        left = self.max_model_len - num_prompt_tokens
        return min(value for value in (left, wanted, ceiling) if value is not None)


def check_startable(num_tokens: int, max_model_len: int) -> None:
    """Refuse a prompt that the scheduler's arithmetic is not made for: nothing to compute, or no room for a token.

    Mirrors vllm/v1/engine/input_processor.py::InputProcessor._validate_prompt_len.
    """
    if not num_tokens:
        raise RequestRefused("the prompt cannot be empty")
    if num_tokens >= max_model_len:
        raise RequestRefused(
            f"a prompt of {num_tokens} tokens leaves no room for one more within {max_model_len}"
        )


def check_servable(prompt: Sequence[int], max_model_len: int, vocab_size: int) -> None:
    """Refuse a prompt that fits and that the engine cannot serve all the same: see check_startable, or a token
    that the model has no embedding for.

    Upstream finds this out when the response of a stream has begun already. It lets an id pass that the tokenizer
    knows and the model does not, and ends when the model looks it up.
    Mirrors vllm/v1/engine/input_processor.py::InputProcessor._validate_model_input.
    """
    check_startable(len(prompt), max_model_len)
    outside = [token for token in (min(prompt), max(prompt)) if not 0 <= token < vocab_size]
    if outside:
        raise RequestRefused(f"token id {outside[0]} is out of vocabulary")

"""From what a client sent to token ids: truncation, and the length checks in upstream's order and with its params.

Mirrors vllm/renderers/params.py::TokenizeParams; the checks themselves are in engine/limits.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from engine import limits
from engine.sampling import RequestRefused
from engine.server.backend import TextTokenizer


class Room(msgspec.Struct, frozen=True):
    """How long a prompt may be. Lengths in tokens; `truncate` -1 means as many as fit.

    `requested` are the output tokens that the client asked for (0: none), `param` its name for them.
    """

    max_model_len: int
    requested: int
    param: str = "max_tokens"
    truncate: int | None = None
    side: Literal["left", "right"] | None = None
    add_special_tokens: bool = True

    @property
    def max_input(self) -> int:
        return self.max_model_len - self.requested

    def check(self) -> None:
        """Raise RequestRefused for what no prompt could fit."""
        limits.check_output(self.requested, self.max_model_len, self.param)
        if self.truncate is not None and self.truncate > self.max_input:
            raise RequestRefused(
                f"truncate_prompt_tokens={self.truncate} is more than the {self.max_input} tokens beside the "
                f"output of {self.param}",
                "truncate_prompt_tokens",
            )


class Prompt(msgspec.Struct, frozen=True):
    """A prompt that fits; `text` is null where the client sent token ids."""

    token_ids: tuple[int, ...]
    text: str | None = None


def from_text(text: str, room: Room, tokenizer: TextTokenizer) -> Prompt:
    """Tokenise a text. One that is too long whatever its tokens are is refused before it is tokenised."""
    if room.truncate is None:
        limits.check_text(text, room.requested, room.max_model_len, tokenizer.max_chars_per_token)
    elif room.side is not None:
        most = max(room.max_input * tokenizer.max_chars_per_token, 0)
        text = text[max(len(text) - most, 0) :] if room.side == "left" else text[:most]
    return from_ids(tokenizer.encode(text, add_special_tokens=room.add_special_tokens), room, text)


def from_ids(token_ids: Sequence[int], room: Room, text: str | None = None) -> Prompt:
    """Truncate and check token ids. Without a side, the last tokens are kept, as upstream's tokenizers do."""
    keep = room.max_input if room.truncate == -1 else room.truncate
    if keep is not None and keep < len(token_ids):
        token_ids = token_ids[:keep] if room.side == "right" else token_ids[len(token_ids) - keep :]
    limits.check_prompt(len(token_ids), room.requested, room.max_model_len)
    return Prompt(tuple(token_ids), text)


def check_servable(prompt: Prompt, max_model_len: int, vocab_size: int) -> None:
    """Raise RequestRefused for a prompt that fits and that the engine cannot serve all the same.

    Upstream finds this out when the response of a stream has begun already.
    Mirrors vllm/v1/engine/input_processor.py::InputProcessor._validate_model_input.
    """
    if len(prompt.token_ids) >= max_model_len:
        raise RequestRefused(
            f"a prompt of {len(prompt.token_ids)} tokens leaves no room for one more within {max_model_len}"
        )
    limits.check_readable(prompt.token_ids, vocab_size)

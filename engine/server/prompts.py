"""From what a client sent to token ids: truncation, and the length checks of engine/limits.py around it.

Mirrors vllm/renderers/params.py::TokenizeParams.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from engine.limits import Room
from engine.server.backend import TextTokenizer
from engine.server.requests import ChatBody, CompletionBody


class Prompt(msgspec.Struct, frozen=True):
    """A prompt that fits; `text` is null where the client sent token ids, `sent` are those before they were cut."""

    token_ids: tuple[int, ...]
    text: str | None = None
    sent: Sequence[int] = ()


class Reader(msgspec.Struct, frozen=True):
    """Reads the prompts of one body. `keep` is to how many tokens a longer one is cut, null for none."""

    room: Room
    keep: int | None
    side: Literal["left", "right"] | None
    add_special_tokens: bool
    tokenizer: TextTokenizer

    def from_text(self, text: str) -> Prompt:
        """Tokenise a text. One that is too long whatever its tokens are is refused before it is tokenised.

        Where no side is named the tokenizer itself truncates: it keeps the last tokens and its special ones.
        """
        per_token = self.tokenizer.max_chars_per_token
        if self.keep is None:
            self.room.check_text(text, per_token)
        elif self.side is not None:
            most = self.room.max_chars(per_token)
            text = text[max(len(text) - most, 0) :] if self.side == "left" else text[:most]
        itself = self.keep if self.side is None else None
        ids = self.tokenizer.encode(text, add_special_tokens=self.add_special_tokens, keep=itself)
        return self._fitting(ids, text)

    def from_ids(self, token_ids: Sequence[int]) -> Prompt:
        """Truncate and check token ids. Without a side the last ones are kept."""
        return self._fitting(token_ids, None)

    def _fitting(self, token_ids: Sequence[int], text: str | None) -> Prompt:
        keep, sent = self.keep, token_ids
        if keep is not None and keep < len(token_ids):
            token_ids = token_ids[:keep] if self.side == "right" else token_ids[len(token_ids) - keep :]
        self.room.check_prompt(len(token_ids))
        return Prompt(tuple(token_ids), text, sent)


def reader(body: CompletionBody | ChatBody, room: Room, tokenizer: TextTokenizer) -> Reader:
    """The reader of a body's prompts. Raises RequestRefused for what no prompt could fit."""
    room.check_output()
    keep = body.truncate_prompt_tokens
    if keep is not None:
        room.check_truncation(keep)
    return Reader(
        room, room.max_input if keep == -1 else keep, body.truncation_side, body.add_special_tokens, tokenizer
    )

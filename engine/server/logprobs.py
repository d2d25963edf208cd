"""Logprobs in the two formats that clients know, and prompt logprobs in the third.

At each position the chosen token comes first and the best alternatives follow, best first; the chosen one is not
repeated. A token that is half a character has no text of its own: it is read after the tokens before it, and what
is still no character reads as nothing.
Mirrors OpenAIServingCompletion._create_completion_logprobs, OpenAIServingChat._create_chat_logprobs and
vllm/v1/engine/logprobs.py::LogprobsProcessor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from engine.outputs import TokenLogprobs
from engine.server.backend import TextTokenizer
from engine.server.responses import (
    ChatLogprobs,
    ChatToken,
    ChatTop,
    CompletionLogprobs,
    PromptLogprobs,
)

LOWEST = -9999.0  # stands for minus infinity, which JSON does not have
HALF = "\ufffd"
CONTEXT = 4  # tokens that the longest UTF-8 character can be spread over


class TokenTexts:
    """The text of each token of one choice, read in sequence; `as_ids` gives `token_id:N` in place of texts."""

    def __init__(self, tokenizer: TextTokenizer, *, as_ids: bool) -> None:
        self._tokenizer = tokenizer
        self._as_ids = as_ids
        self._before: list[int] = []

    def at(self, token_ids: Sequence[int]) -> list[str]:
        """Texts of the alternatives at one position, the chosen one first; moves on past the chosen one."""
        texts = [self._text(token_id, as_ids=self._as_ids) for token_id in token_ids]
        self._before = [*self._before, token_ids[0]][-CONTEXT:]
        return texts

    def spelt(self, token_id: int) -> str:
        """The text of the next token, whatever stands for it."""
        return self._text(token_id, as_ids=False)

    def alone(self, token_id: int) -> str:
        """The text of a first prompt token, which nothing precedes and which has no logprob."""
        return f"token_id:{token_id}" if self._as_ids else self._decode([token_id])

    def _text(self, token_id: int, *, as_ids: bool) -> str:
        if as_ids:
            return f"token_id:{token_id}"
        text = self._decode([token_id])
        return self._after_context(token_id) if text.endswith(HALF) else text

    def _after_context(self, token_id: int) -> str:
        """What a token completes: the text with it, less the text of the whole characters before it."""
        for length in range(1, len(self._before) + 1):
            context = self._before[-length:]
            text = self._decode([*context, token_id])
            if text.endswith(HALF):
                continue
            whole = len(context)
            while whole and self._decode([context[whole - 1]]).endswith(HALF):
                whole -= 1
            prefix = self._decode(context[:whole]) if whole else ""
            return text[_common(prefix, text) :]
        return ""

    def _decode(self, token_ids: Sequence[int]) -> str:
        return self._tokenizer.decode(token_ids, skip_special_tokens=False)


class CompletionRow(NamedTuple):
    """One token in the format of completions."""

    token: str
    logprob: float | None
    top: dict[str, float] | None


def unscored_row(token_id: int, texts: TokenTexts) -> CompletionRow:
    """A prompt's first token, which nothing predicts."""
    return CompletionRow(texts.alone(token_id), None, None)


def completion_row(entry: TokenLogprobs, wanted: int, texts: TokenTexts) -> CompletionRow:
    """A token, and the chosen one with `wanted` alternatives at most."""
    ranked = _ranked(entry)
    names = texts.at([token_id for token_id, _, _ in ranked])
    values = [max(value, LOWEST) for _, value, _ in ranked]
    return CompletionRow(
        names[0], values[0], dict(zip(names[: wanted + 1], values[: wanted + 1], strict=True))
    )


def completion_logprobs(rows: Sequence[CompletionRow], offset: int) -> CompletionLogprobs:
    """The format of completions: parallel lists, and each token's offset in characters; `offset` is the first's."""
    offsets: list[int] = []
    for row in rows:
        offsets.append(offset)
        offset += len(row.token)
    return CompletionLogprobs(
        offsets, [row.logprob for row in rows], [row.token for row in rows], [row.top for row in rows]
    )


def chat_logprobs(entries: Sequence[TokenLogprobs], wanted: int, texts: TokenTexts) -> ChatLogprobs:
    """The format of chat: one object a token, with `wanted` alternatives at most, the chosen one among them."""
    content: list[ChatToken] = []
    for entry in entries:
        ranked = _ranked(entry)
        spelt = texts.spelt(entry.token_id)
        names = texts.at([token_id for token_id, _, _ in ranked])
        every = [
            ChatTop(name, max(value, LOWEST), _bytes(name))
            for name, (_, value, _) in zip(names, ranked, strict=True)
        ]
        # Where ids stand for texts, upstream keeps the text's bytes for the chosen token alone.
        content.append(ChatToken(every[0].token, every[0].logprob, _bytes(spelt), every[:wanted]))
    return ChatLogprobs(content)


def prompt_logprobs(
    entries: Sequence[TokenLogprobs | None] | None, tokenizer: TextTokenizer
) -> PromptLogprobs | None:
    """The format of prompt logprobs: token id to logprob, rank and text at each position; null for none."""
    if entries is None:
        return None
    texts = TokenTexts(tokenizer, as_ids=False)
    positions: PromptLogprobs = []
    for entry in entries:
        if entry is None:
            positions.append(None)
            continue
        ranked = _ranked(entry)
        names = texts.at([token_id for token_id, _, _ in ranked])
        positions.append(
            {
                str(token_id): {"logprob": max(value, LOWEST), "rank": rank, "decoded_token": name}
                for name, (token_id, value, rank) in zip(names, ranked, strict=True)
            }
        )
    return positions


def _bytes(text: str) -> list[int]:
    return list(text.encode("utf-8", "replace"))


def _ranked(entry: TokenLogprobs) -> list[tuple[int, float, int]]:
    """(token id, logprob, rank): the chosen token, then the alternatives that are another token."""
    chosen = (entry.token_id, entry.logprob, entry.rank)
    return [chosen, *(top for top in entry.top if top[0] != entry.token_id)]


def _common(prefix: str, text: str) -> int:
    """How many characters two texts begin with in common."""
    for index, (left, right) in enumerate(zip(prefix, text, strict=False)):
        if left != right:
            return index
    return min(len(prefix), len(text))

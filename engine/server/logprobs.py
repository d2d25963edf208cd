"""Logprobs in the two formats that clients know, and prompt logprobs in the third.

At each position the chosen token comes first and the best alternatives follow, best first; the chosen one is not
repeated. A token that is half a character has no text of its own: it is read after the tokens before it, and what
is still no character reads as nothing.
Mirrors OpenAIServingCompletion._create_completion_logprobs, OpenAIServingChat._create_chat_logprobs and
vllm/v1/engine/logprobs.py::LogprobsProcessor.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.outputs import TokenLogprobs
from engine.server.backend import Backend
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

    def __init__(self, backend: Backend, *, as_ids: bool) -> None:
        self._backend = backend
        self._as_ids = as_ids
        self._before: list[int] = []

    def at(self, token_ids: Sequence[int]) -> list[str]:
        """Texts of the alternatives at one position, the chosen one first; moves on past the chosen one."""
        texts = [self._text(token_id) for token_id in token_ids]
        self._before = [*self._before, token_ids[0]][-CONTEXT:]
        return texts

    def alone(self, token_id: int) -> str:
        """The text of a first prompt token, which nothing precedes and which has no logprob."""
        return f"token_id:{token_id}" if self._as_ids else self._decode([token_id])

    def _text(self, token_id: int) -> str:
        if self._as_ids:
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
        return self._backend.decode(token_ids, skip_special_tokens=False)


def completion_logprobs(
    first_id: int | None, entries: Sequence[TokenLogprobs], wanted: int, texts: TokenTexts
) -> CompletionLogprobs:
    """The format of completions: parallel lists, and offsets from the start of these tokens' text.

    `first_id` is a first prompt token, which has no entry. The chosen token and `wanted` alternatives at most.
    """
    tokens: list[str] = []
    numbers: list[float | None] = []
    top: list[dict[str, float] | None] = []
    if first_id is not None:
        tokens.append(texts.alone(first_id))
        numbers.append(None)
        top.append(None)
    for entry in entries:
        ranked = _ranked(entry)
        names = texts.at([token_id for token_id, _, _ in ranked])
        values = [max(value, LOWEST) for _, value, _ in ranked]
        tokens.append(names[0])
        numbers.append(values[0])
        top.append(dict(zip(names[: wanted + 1], values[: wanted + 1], strict=True)))
    offsets = [0]
    for token in tokens[:-1]:
        offsets.append(offsets[-1] + len(token))
    return CompletionLogprobs(offsets[: len(tokens)], numbers, tokens, top)


def chat_logprobs(entries: Sequence[TokenLogprobs], wanted: int, texts: TokenTexts) -> ChatLogprobs:
    """The format of chat: one object a token, with `wanted` alternatives at most, the chosen one among them."""
    content: list[ChatToken] = []
    for entry in entries:
        ranked = _ranked(entry)
        names = texts.at([token_id for token_id, _, _ in ranked])
        every = [
            ChatTop(name, max(value, LOWEST), list(name.encode("utf-8", "replace")))
            for name, (_, value, _) in zip(names, ranked, strict=True)
        ]
        chosen = every[0]
        content.append(ChatToken(chosen.token, chosen.logprob, chosen.bytes, every[:wanted]))
    return ChatLogprobs(content)


def prompt_logprobs(entries: Sequence[TokenLogprobs | None], texts: TokenTexts) -> PromptLogprobs:
    """The format of prompt logprobs: token id to logprob, rank and text at each position."""
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

"""Streams as upstream writes them, from tokens and from how these are put into frames; hypothesis strategies of both."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

ID = "0123456789abcdef"
Token = tuple[str, int, float]  # text, id, logprob

TOKENS = st.tuples(
    st.sampled_from(["", "a", " b", "é"]), st.integers(0, 511), st.floats(-9, 0).map(lambda x: round(x, 3))
)
SEQUENCES = st.lists(st.lists(TOKENS, min_size=1, max_size=8), min_size=1, max_size=2)


class Wish:
    """What a request asked for: which fields carry tokens."""

    def __init__(self, chat: bool, logprobs: bool, ids: bool, continuous: bool) -> None:
        self.chat, self.logprobs, self.ids, self.continuous = chat, logprobs, ids, continuous


WISHES = st.builds(Wish, st.booleans(), st.booleans(), st.booleans(), st.booleans())


def merged(draw: st.DrawFn, tokens: list[Token]) -> list[tuple[list[Token], bool]]:
    """Groups of tokens a frame each, the last with the finish or the finish alone."""
    groups: list[list[Token]] = []
    for token in tokens:
        if groups and draw(st.booleans()):
            groups[-1].append(token)
        else:
            groups.append([token])
    frames = [(group, False) for group in groups]
    if draw(st.booleans()):
        return [*frames, ([], True)]
    return [*frames[:-1], (groups[-1], True)]


@st.composite
def framings(draw: st.DrawFn, sequences: list[list[Token]], wish: Wish) -> bytes:
    """One way in which a server may write these choices: merged and interleaved at random."""
    writers = [_frames(index, merged(draw, tokens), wish) for index, tokens in enumerate(sequences)]
    pending = {index: list(frames) for index, frames in enumerate(writers)}
    content: list[dict[str, Any]] = []
    if wish.chat:
        content += [pending[index].pop(0) for index in pending]
    while any(pending.values()):
        index = draw(st.sampled_from([index for index, frames in pending.items() if frames]))
        content.append(pending[index].pop(0))
    total = sum(map(len, sequences))
    if wish.continuous:
        content.append({**_beside(wish), "choices": [], "usage": usage(total)})
    return (
        b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in content) + b"data: [DONE]\n\n"
    )


def usage(tokens: int) -> dict[str, int]:
    return {"prompt_tokens": 3, "total_tokens": 3 + tokens, "completion_tokens": tokens}


def _beside(wish: Wish) -> dict[str, Any]:
    word, kind = ("chatcmpl", "chat.completion.chunk") if wish.chat else ("cmpl", "text_completion")
    return {"id": f"{word}-{ID}", "object": kind, "created": int(time.time()), "model": "m"}


def _frames(index: int, groups: list[tuple[list[Token], bool]], wish: Wish) -> Iterator[dict[str, Any]]:
    sent = 0
    if wish.chat:
        delta = {"role": "assistant", "content": ""}
        role = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
        yield _frame(role, 0, wish)
    for number, (tokens, last) in enumerate(groups):
        sent += len(tokens)
        text = "".join(token[0] for token in tokens)
        choice: dict[str, Any] = {
            "index": index,
            **({"delta": {"content": text}} if wish.chat else {"text": text}),
            "logprobs": _logprobs(tokens, wish),
            "finish_reason": "length" if last else None,
            "token_ids": [token[1] for token in tokens] if wish.ids else None,
        }
        if not wish.chat:
            choice["prompt_token_ids"] = [7, 8, 9] if wish.ids and number == 0 else None
        has_reason = last or not wish.chat
        yield _frame({**choice, "stop_reason": None} if has_reason else choice, sent, wish)


def _frame(choice: dict[str, Any], sent: int, wish: Wish) -> dict[str, Any]:
    more = {"usage": usage(sent)} if wish.continuous else {}
    return {**_beside(wish), "choices": [choice], **more}


def _logprobs(tokens: list[Token], wish: Wish) -> dict[str, Any] | None:
    if not wish.logprobs:
        return None
    if wish.chat:
        return {
            "content": [{"token": text, "logprob": value, "top_logprobs": []} for text, _, value in tokens]
        }
    return {
        "text_offset": list(range(len(tokens))),
        "token_logprobs": [value for _, _, value in tokens],
        "tokens": [text for text, _, _ in tokens],
        "top_logprobs": [{text: value} for text, _, value in tokens],
    }

"""Text from token ids as they come: whole characters only, and cut where a stop string ends it.

A token may hold half a character; its text comes with the token that completes it, and never as a replacement
character. The text depends on the token before it (a leading space, say), so a stream starts from the prompt.
Mirrors vllm/v1/engine/detokenizer.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from engine.sampling import SamplingParams

INCOMPLETE = "\ufffd"
CONTEXT = 6  # tokens before the first one of a stream that may change how it reads


class Stream(Protocol):
    """Turns one token after another into the text that it completes."""

    def step(self, token_id: int) -> str: ...


class FastStream:
    """The tokenizers library's own stream. `backend` must not be one that anybody encodes with."""

    def __init__(self, backend: Any, prompt: Sequence[int], skip_special_tokens: bool) -> None:
        self._backend = backend
        self._skip = skip_special_tokens
        self._stream = self._started(list(prompt))

    def _started(self, prompt: list[int]) -> Any:
        from tokenizers.decoders import DecodeStream

        return DecodeStream(ids=prompt, skip_special_tokens=self._skip)

    def step(self, token_id: int) -> str:
        """The text that `token_id` completes.

        A tokenizer may decode a longer sequence to a text that does not continue the shorter one's; the stream
        cannot go on from there and starts anew with this token.
        """
        try:
            return self._stream.step(self._backend, token_id) or ""
        except Exception as error:
            if not str(error).startswith("Invalid prefix"):
                raise
            self._stream = self._started([])
            return self._stream.step(self._backend, token_id) or ""


class PlainStream:
    """The same text from `decode` alone, for tokenizers without a stream; the plain twin of FastStream.

    Two texts are compared: the window up to what was emitted, and the same with the new tokens.
    """

    def __init__(self, decode: Callable[[list[int]], str], prompt: Sequence[int]) -> None:
        self._decode = decode
        self._window = list(prompt[-CONTEXT:])
        self._emitted = len(self._window)

    def step(self, token_id: int) -> str:
        self._window.append(token_id)
        before = self._decode(self._window[: self._emitted])
        after = self._decode(self._window)
        if len(after) <= len(before) or after.endswith(INCOMPLETE):
            return ""
        self._window = self._window[-CONTEXT:]
        self._emitted = len(self._window)
        return after[len(before) :]


class Detokenizer:
    """The text of one choice, and where a stop string ends it."""

    def __init__(self, stream: Stream, params: SamplingParams, added: dict[int, str] | None = None) -> None:
        """`added` are the tokenizer's added tokens, wanted where no spaces go between special tokens."""
        self._stream = stream
        self._stop = params.stop
        self._min_tokens = params.min_tokens
        self._keep_stop = params.include_stop_str_in_output
        # What could still become a stop string is not shown before it is decided.
        self._held_back = 0 if self._keep_stop else max((len(text) for text in self._stop), default=1) - 1
        joined = not (params.skip_special_tokens or params.spaces_between_special_tokens)
        self._added = (added or {}) if joined else {}
        self._after_added = False
        self._num_tokens = 0
        self._shown = 0
        self.text = ""

    def push(self, token_ids: Sequence[int], *, stopped: bool) -> str | None:
        """Add new tokens; returns the stop string that they complete, if any, after cutting the text there.

        `stopped` says that the last token is EOS or a stop id: it has no text, unless stops are to be included.
        No stop string is looked for before more than `min_tokens` tokens. Mirrors ::BaseIncrementalDetokenizer.update.
        """
        if not token_ids:
            return None
        silent = stopped and not self._keep_stop
        unsearched = len(self.text)
        for token_id in token_ids[:-1] if silent else token_ids:
            self._num_tokens += 1
            self.text += self._step(token_id)
            if self._num_tokens <= self._min_tokens:
                unsearched = len(self.text)
        self._num_tokens += silent
        if not self._stop or self._num_tokens <= self._min_tokens or unsearched == len(self.text):
            return None
        return self._cut(unsearched)

    def take(self, *, finished: bool) -> str:
        """The text since the last call; what may yet become a stop string stays until `finished`."""
        end = len(self.text) if finished else len(self.text) - self._held_back
        if end <= self._shown:
            return ""
        fresh = self.text[self._shown : end]
        self._shown = end
        return fresh

    def _step(self, token_id: int) -> str:
        text = self._stream.step(token_id)
        if self._added:
            own = self._added.get(token_id)
            if own is not None and self._after_added:
                text = own
            self._after_added = own is not None
        return text

    def _cut(self, unsearched: int) -> str | None:
        """The stop string that is complete first in what is new; the earlier of the list on a tie."""
        best: tuple[int, int, str] | None = None
        for stop in self._stop:
            start = self.text.find(stop, max(unsearched - len(stop) + 1, 0))
            if start >= 0 and (best is None or start + len(stop) < best[0]):
                best = (start + len(stop), start, stop)
        if best is None:
            return None
        end, start, stop = best
        self.text = self.text[: end if self._keep_stop else start]
        return stop

"""A model's tokenizer as the engine uses it: text to ids, ids to text, messages to a prompt, from any thread.

Encoding changes a fast tokenizer's state and refuses while somebody else reads it, so it happens under a lock,
and streams of text read a copy of their own.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from engine.detokenizer import Detokenizer, FastStream, PlainStream, Stream
from engine.sampling import RequestRefused, SamplingParams


class Tokenizer:
    """Wraps a tokenizer of transformers; `plain` takes the twin of the fast text stream."""

    def __init__(self, wrapped: Any, *, plain: bool = False) -> None:
        self._wrapped = wrapped
        self._lock = threading.Lock()
        backend = None if plain else getattr(wrapped, "_tokenizer", None)
        self._stream_backend = copy.deepcopy(backend)
        vocabulary: dict[str, int] = wrapped.get_vocab()
        self.max_token_id = max(vocabulary.values())
        self.max_chars_per_token = max(map(len, vocabulary))
        eos: int | None = wrapped.eos_token_id
        self.eos_token_id = eos

    @classmethod
    def load(cls, folder: Path, *, plain: bool = False) -> Tokenizer:
        """The tokenizer of a model's folder. Raises OSError or ValueError when it has none that can be read."""
        from transformers import AutoTokenizer

        return cls(AutoTokenizer.from_pretrained(folder, local_files_only=True), plain=plain)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of `text`. Raises RequestRefused for text that is no Unicode (a lone surrogate)."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise RequestRefused(f"the text is not valid Unicode: {error.reason}") from error
        with self._lock:
            ids: list[int] = self._wrapped.encode(text, add_special_tokens=add_special_tokens)
        return ids

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """The text of `token_ids`; ids that the tokenizer does not know have none."""
        with self._lock:
            text: str = self._wrapped.decode(list(token_ids), skip_special_tokens=skip_special_tokens)
        return text

    def tokens(self, token_ids: Sequence[int]) -> list[str]:
        """Each id as the vocabulary spells it, for people."""
        with self._lock:
            found: list[str | None] = self._wrapped.convert_ids_to_tokens(list(token_ids))
        return [token or "" for token in found]

    @property
    def has_chat_template(self) -> bool:
        return bool(self._wrapped.chat_template)

    def chat_prompt(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        chat_template: str | None = None,
        **variables: Any,
    ) -> str:
        """The prompt that the chat template makes of `messages`; `variables` are the template's.

        Raises RequestRefused when there is no template, or when it refuses the messages.
        """
        if chat_template is None and not self.has_chat_template:
            raise RequestRefused("this model has no chat template: send a prompt to /v1/completions")
        try:
            with self._lock:
                prompt: str = self._wrapped.apply_chat_template(
                    list(messages),
                    tokenize=False,
                    add_generation_prompt=add_generation_prompt,
                    continue_final_message=continue_final_message,
                    chat_template=chat_template,
                    **variables,
                )
        except Exception as error:  # a template is a program, and raises whatever it likes
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise RequestRefused(f"the chat template refuses the messages: {first}") from error
        return prompt

    def detokenizer(self, prompt: Sequence[int], params: SamplingParams) -> Detokenizer:
        """A stream of text that continues `prompt`."""
        stream: Stream
        if self._stream_backend is not None:
            stream = FastStream(self._stream_backend, prompt, params.skip_special_tokens)
        else:
            skip = params.skip_special_tokens
            stream = PlainStream(lambda ids: self.decode(ids, skip_special_tokens=skip), prompt)
        return Detokenizer(stream, params, self._added)

    @cached_property
    def _added(self) -> dict[int, str]:
        return {int(i): str(token) for i, token in self._wrapped.added_tokens_decoder.items()}

"""A model's tokenizer as the engine uses it: text to ids, ids to text, messages to a prompt, from any thread.

A fast tokenizer (one in Rust) needs no lock: what would change its state while others use it (truncation, padding)
is taken off once at the start and done here on the ids, so that a long text holds up nobody. Streams of text read
a copy of their own all the same. A tokenizer written in Python takes turns.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any

from engine.detokenizer import Detokenizer, FastStream, PlainStream, Stream
from engine.sampling import RequestRefused, SamplingParams


class Tokenizer:
    """Wraps a tokenizer of transformers; `plain` takes the twin of the fast text stream."""

    def __init__(self, wrapped: Any, *, plain: bool = False) -> None:
        self._wrapped = wrapped
        fast = getattr(wrapped, "_tokenizer", None)
        self._turn: AbstractContextManager[object] = threading.Lock() if fast is None else nullcontext()
        if fast is not None:
            fast.no_truncation()
            fast.no_padding()
        self._stream_backend = None if plain else copy.deepcopy(fast)
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

    def encode(self, text: str, *, add_special_tokens: bool = True, keep: int | None = None) -> list[int]:
        """Token ids of `text`; of more than `keep` the text's last ones, special tokens around them included.

        Raises RequestRefused for text that is no Unicode (a lone surrogate).
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise RequestRefused(f"the text is not valid Unicode: {error.reason}") from error
        with self._turn:
            read: Mapping[str, list[int]] = self._wrapped(
                text,
                add_special_tokens=add_special_tokens,
                return_special_tokens_mask=keep is not None,
                return_attention_mask=False,
                return_token_type_ids=False,
                verbose=False,
            )
        ids = read["input_ids"]
        if keep is None or len(ids) <= keep:
            return ids
        return _last(ids, read["special_tokens_mask"] if add_special_tokens else [0] * len(ids), keep)

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """The text of `token_ids`; ids that the tokenizer does not know have none."""
        with self._turn:
            text: str = self._wrapped.decode(list(token_ids), skip_special_tokens=skip_special_tokens)
        return text

    def tokens(self, token_ids: Sequence[int]) -> list[str]:
        """Each id as the vocabulary spells it, for people."""
        with self._turn:
            found: list[str | None] = self._wrapped.convert_ids_to_tokens(list(token_ids))
        return [token or "" for token in found]

    @property
    def has_chat_template(self) -> bool:
        return bool(self._wrapped.chat_template)

    @property
    def knows_developer(self) -> bool:
        """Whether the chat template speaks of a role `developer`. Mirrors ::_detect_developer_role_support."""
        template = str(self._wrapped.chat_template)
        return "'developer'" in template or '"developer"' in template

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
            with self._turn:
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


def _last(ids: list[int], added: Sequence[int], keep: int) -> list[int]:
    """At most `keep` ids: what the tokenizer has `added` (1) at both ends, and the last ids between.

    Mirrors a fast tokenizer that truncates on the left, as upstream's does, and then is cut to its last `keep`.
    """
    first = next((i for i, mark in enumerate(added) if not mark), len(ids))
    end = next((i for i in range(len(ids), first, -1) if not added[i - 1]), first)
    middle = max(keep - first - (len(ids) - end), 0)
    kept = [*ids[:first], *ids[end - middle : end], *ids[end:]]
    return kept[len(kept) - keep :]

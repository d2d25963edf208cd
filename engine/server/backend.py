"""What the server needs of whatever generates: engine/llm.py has it, and so may a stand-in that a test controls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from engine.generation import Generation
from engine.llm import Prepared
from engine.stats import CoreStats


class TextTokenizer(Protocol):
    """See engine/tokenizer.py::Tokenizer."""

    max_chars_per_token: int

    @property
    def knows_developer(self) -> bool: ...

    def encode(self, text: str, *, add_special_tokens: bool = True, keep: int | None = None) -> list[int]: ...

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str: ...

    def tokens(self, token_ids: Sequence[int]) -> list[str]: ...

    def chat_prompt(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        **variables: Any,
    ) -> str: ...


class Backend(Protocol):
    """See engine/llm.py::LLM."""

    @property
    def max_model_len(self) -> int: ...

    @property
    def vocab_size(self) -> int: ...

    @property
    def tokenizer(self) -> TextTokenizer: ...

    @property
    def alive(self) -> bool: ...

    def submit(
        self, prepared: Prepared, wake: Callable[[], None], request_id: str | None = None
    ) -> Generation: ...

    def stats(self) -> CoreStats: ...

    def stop(self) -> None: ...

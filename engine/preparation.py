"""From what a client asks to a request that may be submitted; needs a tokenizer and lengths, and no weights."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from engine.limits import Room, check_servable
from engine.sampling import SamplingParams
from engine.tokenizer import Tokenizer


class Prepared(msgspec.Struct, frozen=True):
    """A request that may be submitted: its tokens, and its parameters as they are in force."""

    prompt: tuple[int, ...]
    params: SamplingParams
    priority: int = 0
    cache_salt: str | None = None


class Preparer:
    """Tokenises and checks. `default` and `ceiling` are the model's and the operator's numbers of output tokens."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_model_len: int,
        vocab_size: int,
        default: float | None = None,
        ceiling: int | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._max_model_len = max_model_len
        self._vocab_size = vocab_size
        self._default = None if default is None else int(default)
        self._ceiling = ceiling

    def prepare(
        self,
        prompt: str | Sequence[int],
        params: SamplingParams,
        *,
        max_tokens: int | None = None,
        max_tokens_param: str = "max_tokens",
        add_special_tokens: bool = True,
        priority: int = 0,
        cache_salt: str | None = None,
    ) -> Prepared:
        """Tokenise and check a request; `max_tokens` is what the client asked for, null if nothing.

        `params.max_tokens` is not looked at: it becomes what the request may really generate.
        Raises RequestRefused with the field at fault, as upstream names it.
        """
        room = Room(self._max_model_len, max_tokens, max_tokens_param)
        room.check_output()
        if isinstance(prompt, str):
            room.check_text(prompt, self._tokenizer.max_chars_per_token)
            prompt = self._tokenizer.encode(prompt, add_special_tokens=add_special_tokens)
        room.check_prompt(len(prompt))
        granted = room.granted(len(prompt), self._default, self._ceiling)
        in_force = msgspec.structs.replace(params, max_tokens=granted).validate(
            self._vocab_size, room.max_model_len
        )
        check_servable(prompt, room.max_model_len, self._vocab_size)
        return Prepared(tuple(prompt), in_force, priority, cache_salt)

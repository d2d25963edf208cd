"""Lengths become token ids here: every id that a scenario does not spell out.

Generated ids depend on nothing but a seed, a stream and an index, so that a scenario asks the same
question on every machine and in every version. In a timeline they start at 1000: the small ids that scenarios use
for EOS and stop tokens never occur by accident.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

from parity.document import Fault, Keys, nearest
from parity.form import PartForm, RequestForm
from parity.models import FIRST_GENERATED_ID

MAX_TOKENS = 1 << 20
"""The most ids that one file may hold, prompts and outputs together."""

_WORDS = 8  # 64-bit numbers in one digest


def generated(
    seed: str, stream: str, start: int, count: int, vocab_size: int, lowest: int = FIRST_GENERATED_ID
) -> list[int]:
    """`count` ids in [lowest, vocab_size) from index `start` of a stream; equal arguments, equal ids."""
    first, last = start // _WORDS, (start + count - 1) // _WORDS
    words = [word for index in range(first, last + 1) for word in _words(seed, stream, index)]
    offset = start - first * _WORDS
    span = vocab_size - lowest
    return [lowest + word % span for word in words[offset : offset + count]]


@lru_cache(maxsize=1 << 16)
def _words(seed: str, stream: str, index: int) -> tuple[int, ...]:
    digest = hashlib.blake2b(f"{seed}:{stream}:{index}".encode(), digest_size=8 * _WORDS).digest()
    return tuple(int.from_bytes(digest[at : at + 8], "big") for at in range(0, len(digest), 8))


def expand(requests: Sequence[RequestForm], vocab_size: int) -> list[tuple[list[int], list[int]]]:
    """The explicit (prompt, output) of each request, in the same order.

    Raises Fault at `requests[i]…` for an unknown id, a cycle, a `take` above what there is, an id that
    the vocabulary does not have, and for more than MAX_TOKENS ids in all.
    """
    return _Expansion(requests, vocab_size).all()


class _Expansion:
    """One pass over a file's requests; prompts that other prompts refer to are made first, once."""

    def __init__(self, requests: Sequence[RequestForm], vocab_size: int) -> None:
        self._requests = requests
        self._vocab = vocab_size
        self._index = {request.id: index for index, request in enumerate(requests)}
        self._prompts: dict[int, list[int]] = {}
        self._pending: list[int] = []
        self._left = MAX_TOKENS
        self._outputs: list[list[int]] = []

    def all(self) -> list[tuple[list[int], list[int]]]:
        self._outputs = [self._output(index) for index in range(len(self._requests))]
        return [(self._prompt(index), self._outputs[index]) for index in range(len(self._requests))]

    def _output(self, index: int) -> list[int]:
        request, keys = self._requests[index], ("requests", index)
        missing = request.max_tokens - len(request.output)
        if missing < 0:
            raise Fault(
                f"{len(request.output)} forced ids, but max_tokens is {request.max_tokens}",
                (*keys, "output"),
                hint="raise max_tokens or shorten output",
            )
        self._spend(request.max_tokens, (*keys, "max_tokens"))
        self._check(request.output, (*keys, "output"))
        return request.output + self._generate(request, "output", len(request.output), missing)

    def _prompt(self, index: int) -> list[int]:
        if index in self._prompts:
            return self._prompts[index]
        request, keys = self._requests[index], ("requests", index, "prompt")
        if index in self._pending:
            names = " → ".join(self._requests[at].id for at in [*self._pending, index])
            raise Fault(f"a prompt that contains itself: {names}", keys)
        if isinstance(request.prompt, int):
            self._spend(request.prompt, keys)
            prompt = self._generate(request, "prompt", 0, request.prompt)
        else:
            self._pending.append(index)
            prompt = self._parts(request, request.prompt, keys)
            self._pending.pop()
        self._prompts[index] = prompt
        return prompt

    def _parts(self, request: RequestForm, parts: Sequence[int | PartForm], keys: Keys) -> list[int]:
        prompt: list[int] = []
        made = 0
        for at, part in enumerate(parts):
            if isinstance(part, int):
                self._check([part], (*keys, at))
                piece = [part]
            elif part.new is not None:
                _alone(part, (*keys, at))
                self._spend(part.new, (*keys, at))
                piece = self._generate(request, "prompt", made, part.new)
                made += part.new
            else:
                piece = self._taken(part, (*keys, at))
            if not isinstance(part, PartForm) or part.new is None:
                self._spend(len(piece), (*keys, at))
            prompt += piece
        return prompt

    def _taken(self, part: PartForm, keys: Keys) -> list[int]:
        _alone(part, keys)
        key, name = ("of", part.of) if part.of is not None else ("output_of", part.output_of)
        assert name is not None
        if name not in self._index:
            raise Fault(f"no request {name!r} in this file", (*keys, key), hint=nearest(name, self._index))
        index = self._index[name]
        source = self._prompt(index) if key == "of" else self._outputs[index]
        if part.take is not None and part.take > len(source):
            raise Fault(f"take {part.take}, but {key} {name!r} has {len(source)} ids", (*keys, "take"))
        return source[: part.take]

    def _generate(self, request: RequestForm, stream: str, start: int, count: int) -> list[int]:
        seed = f"id:{request.id}" if request.seed is None else f"seed:{request.seed}"
        return generated(seed, stream, start, count, self._vocab)

    def _check(self, ids: Sequence[int], keys: Keys) -> None:
        for token in ids:
            if token >= self._vocab:
                raise Fault(f"id {token} is outside the model's vocabulary of {self._vocab}", keys)

    def _spend(self, count: int, keys: Keys) -> None:
        self._left -= count
        if self._left < 0:
            raise Fault(f"a scenario may hold {MAX_TOKENS} token ids at most", keys)


def _alone(part: PartForm, keys: Keys) -> None:
    """One of `of`, `output_of` and `new`; `take` only with the first two."""
    given = [name for name in ("of", "output_of", "new") if getattr(part, name) is not None]
    if len(given) != 1:
        raise Fault(
            f"a part has exactly one of of, output_of and new, not {' and '.join(given) or 'none'}", keys
        )
    if given == ["new"] and part.take is not None:
        raise Fault("take goes with of and output_of, not with new", (*keys, "take"))

"""Where numbers are compared within a tolerance: log probabilities, and nothing else.

Both sides compute in float32, in another order of additions: their log probabilities differ in the last digits,
and everything that is made of them (tokens, texts, counts) does not. The rule goes by key, so that a level whose
observations have no such key stays exact.
"""

from __future__ import annotations

from collections.abc import Sequence

from parity.scenario import Json

TOLERANCE = 2e-4  # absolute
KEYS = frozenset({"logprobs", "prompt_logprobs", "token_logprobs", "top_logprobs", "logprob"})
MARKER = "#"  # stands for a number that a digest does not depend on
_COUNTED = frozenset({"bytes", "rank", "text_offset"})  # integers beside the log probabilities


def is_near(path: Sequence[str | int], oracle: float, subject: float) -> bool:
    """Whether two numbers at this place are the same.

    Below one of KEYS: within TOLERANCE. Elsewhere: equal, and both integers or neither (a client that expects 3 may
    not read 3.0).
    """
    if KEYS.isdisjoint(path):
        return oracle == subject and type(oracle) is type(subject)
    return abs(oracle - subject) <= TOLERANCE


def without_logprobs(value: Json) -> Json:
    """The value with MARKER for each log probability, so that its digest does not depend on their last digits."""
    return _blank(value, below=False)


def _blank(value: Json, *, below: bool) -> Json:
    if isinstance(value, dict):
        return {
            key: item if key in _COUNTED and _is_counts(item) else _blank(item, below=below or key in KEYS)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_blank(item, below=below) for item in value]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return MARKER if below and is_number else value


def _is_counts(value: Json) -> bool:
    """Integers only: a token may be called `rank`, and its log probability is no integer."""
    return isinstance(value, int) or (
        isinstance(value, list) and all(isinstance(item, int) for item in value)
    )

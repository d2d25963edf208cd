"""Where numbers are compared within a tolerance: log probabilities, and nothing else.

Both sides compute in float32, in another order of additions: their log probabilities differ in the last digits,
and everything that is made of them (tokens, texts, counts) does not. The rule goes by key, so that a level whose
observations have no such key stays exact.

A walk (`diff`) and a digest must agree on what is equal: both ask `is_log_probability`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from parity.scenario import Json

TOLERANCE = 2e-4  # absolute
KEYS = frozenset({"logprobs", "prompt_logprobs", "token_logprobs", "top_logprobs", "logprob"})
MARKER = "#"  # stands for a number that a digest does not depend on
RANKS = 2  # by which a rank may differ that stands further down than any list of alternatives goes
MOST_LISTED = 20  # alternatives that a server lists at most
_COUNTED = frozenset({"bytes", "rank", "text_offset"})  # integers beside the log probabilities


def is_near(path: Sequence[str | int], oracle: float, subject: float) -> bool:
    """Whether two numbers at this place are the same.

    Log probabilities: within TOLERANCE. Ranks that are left to it: within RANKS. Elsewhere: equal as they are written, so that 3, 3.0, 0.0 and -0.0 are
    four numbers (a client that expects 3 may not read 3.0).
    """
    if is_log_probability(path, oracle) and is_log_probability(path, subject):
        most = RANKS if _is_low_rank(path[-1], oracle) else TOLERANCE
        return abs(oracle - subject) <= most
    if type(oracle) is not type(subject) or oracle != subject:
        return False
    return math.copysign(1, oracle) == math.copysign(1, subject)


def is_log_probability(path: Sequence[str | int], value: Json) -> bool:
    """Whether this is a number below one of KEYS, and no integer of those that are counted beside them.

    A token may be called `rank`, and its log probability is no integer. A rank far down is a matter of the last digits, as
    nearly equal tokens stand closely there.
    """
    if not isinstance(value, (int, float)) or isinstance(value, bool) or KEYS.isdisjoint(path):
        return False
    name = next((key for key in reversed(path) if isinstance(key, str)), None)
    return not (name in _COUNTED and isinstance(value, int)) or _is_low_rank(name, value)


def _is_low_rank(name: str | int | None, value: Json) -> bool:
    return name == "rank" and isinstance(value, int) and value > MOST_LISTED


def without_logprobs(value: Json) -> Json:
    """The value with MARKER for each log probability, so that its digest does not depend on their last digits."""
    return _blank((), value)


def holds_logprobs(value: Json) -> bool:
    """Whether anything in it is left to the tolerance, so that its digest does not tell it."""
    return bool(without_logprobs(value) != value)


def _blank(path: tuple[str | int, ...], value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _blank((*path, key), item) for key, item in value.items()}
    if isinstance(value, list):
        return [_blank((*path, index), item) for index, item in enumerate(value)]
    return MARKER if is_log_probability(path, value) else value

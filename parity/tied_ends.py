"""What of an answer's end may follow from a tie: which token came decides when a text ends, and so what is counted.

Nothing else does. A reason that no other token could have led to, a prompt that is counted otherwise, or a number of
tokens that the request does not allow is a difference, tie or not.
"""

from __future__ import annotations

from typing import Any

from parity.scenario import Json

REASONS = ("length", "stop")  # what a text may end with, whichever tokens it is made of


def may_last(oracle: Json, subject: Json, longer: int) -> bool:
    """Whether the subject's choice may have `longer` more tokens than the oracle's, by the reasons of both.

    `length` is the most that the request allows: two that end so are equally long, and none is longer.
    """
    reasons = [
        choice.get("finish_reason") if isinstance(choice, dict) else None for choice in (oracle, subject)
    ]
    if reasons == ["length", "length"]:
        return longer == 0
    if reasons[0] == "length":
        return longer <= 0
    return longer >= 0 if reasons[1] == "length" else True


def reasons_of(oracle: Json, subject: Json) -> Any:
    """`subject` with the oracle's reasons for its end, where both end for one of REASONS and say no more than that."""
    if not isinstance(oracle, dict) or not isinstance(subject, dict):
        return subject
    if not all(_ends_by_itself(choice) for choice in (oracle, subject)):
        return subject
    shared = [key for key in ("finish_reason", "stop_reason") if key in oracle and key in subject]
    return {**subject, **{key: oracle[key] for key in shared}}


def usage_of(subject: Json, longer: int) -> Any:
    """`subject` with its usage as it were without the tokens that it went on longer: fewer completion tokens, and a
    total that is less by as many. If they are not those that it lists, that is a difference."""
    usage = subject.get("usage") if isinstance(subject, dict) else None
    if not isinstance(usage, dict):
        return subject
    less = {
        name: count - longer
        for name, count in usage.items()
        if name in ("completion_tokens", "total_tokens") and type(count) is int
    }
    return {**subject, "usage": {**usage, **less}}


def _ends_by_itself(choice: dict[str, Any]) -> bool:
    """A text that ended by `stop` may name the token or the string that stopped it; one at its `length` does not."""
    reason, stopped_by = choice.get("finish_reason"), choice.get("stop_reason")
    return reason in REASONS and (stopped_by is None or (reason == "stop" and type(stopped_by) in (int, str)))

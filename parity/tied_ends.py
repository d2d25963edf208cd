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
    reasons = [choice.get("finish_reason") if isinstance(choice, dict) else None for choice in (oracle, subject)]
    if reasons == ["length", "length"]:
        return longer == 0
    if reasons[0] == "length":
        return longer <= 0
    return longer >= 0 if reasons[1] == "length" else True


def reasons_of(oracle: Json, subject: Json) -> Any:
    """`subject` with the oracle's reasons for its end, where both end for one of REASONS."""
    if not isinstance(oracle, dict) or not isinstance(subject, dict):
        return subject
    if any(choice.get("finish_reason") not in REASONS for choice in (oracle, subject)):
        return subject
    taken = {**subject, "finish_reason": oracle["finish_reason"]}
    if "stop_reason" in oracle and "stop_reason" in subject and _is_stop_reason(subject):
        taken["stop_reason"] = oracle["stop_reason"]
    return taken


def usage_of(oracle: Json, subject: Json, longer: int) -> Any:
    """`subject` with the oracle's completion tokens in its usage, and the total that follows, where they are apart
    by the `longer` tokens that the subject's choices list."""
    theirs, ours = _usage(oracle), _usage(subject)
    counts = [usage.get("completion_tokens") for usage in (theirs, ours)]
    prompt, total = ours.get("prompt_tokens"), ours.get("total_tokens")
    if not all(type(count) is int for count in (*counts, prompt)) or counts[1] - counts[0] != longer:
        return subject
    taken = {**ours, "completion_tokens": counts[0]}
    if total == prompt + counts[1]:
        taken["total_tokens"] = prompt + counts[0]
    return {**subject, "usage": taken}


def _is_stop_reason(choice: dict[str, Any]) -> bool:
    """A text that ended by `stop` may name the token or the string that stopped it."""
    reason = choice["stop_reason"]
    if choice["finish_reason"] == "stop" and type(reason) in (int, str):
        return True
    return reason is None


def _usage(holder: Json) -> dict[str, Any]:
    usage = holder.get("usage") if isinstance(holder, dict) else None
    return usage if isinstance(usage, dict) else {}

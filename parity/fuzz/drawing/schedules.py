"""Documents of level schedule: a configuration under some pressure, requests, and what happens to them."""

from __future__ import annotations

from typing import Any

from parity.fuzz.document import Document
from parity.fuzz.drawing.configs import written
from parity.fuzz.drawing.frame import draw_features, draw_frame
from parity.fuzz.drawing.hand import Hand
from parity.fuzz.drawing.requests import Request, draw_requests

_AFTER = (1, 0, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 26)  # steps after an arrival
_OVERLONG = "a prompt that upstream's front end refuses"
_CUT = "the limit of steps is drawn"


def draw_schedule(hand: Hand) -> Document:
    features = draw_features(hand)
    frame = draw_frame(hand, features)
    requests = draw_requests(hand, frame)
    document: Document = {"level": "schedule", "config": written(frame.config)}
    if features.oddity in ("overlong", "cut"):
        reason = _CUT if features.oddity == "cut" else _OVERLONG
        document["waive"] = [{"property": "terminates", "reason": reason}]
    document["requests"] = requests
    if features.aborts:
        document["aborts"] = [_abort(hand, requests) for _ in range(1 + hand.below(3))]
    if features.resets:
        document["resets"] = [_reset(hand, requests) for _ in range(1 + hand.below(2))]
    if features.oddity == "cut":
        document["max_steps"] = 1 + hand.below(20)
    return document


def _abort(hand: Hand, requests: list[Request]) -> dict[str, Any]:
    """An abort, mostly while its request waits or runs, now and then before it arrived or after it ended."""
    which, after = hand.rolls(2)
    request = requests[which // 2 % len(requests)]
    at = max(0, request.get("at", 0) - 1 + _AFTER[after % len(_AFTER)])
    abort = {"id": request["id"], "at": at}
    return {**abort, "when": "before_update"} if which % 2 else abort


def _reset(hand: Hand, requests: list[Request]) -> dict[str, Any]:
    which, after = hand.rolls(2)
    at = requests[which // 2 % len(requests)].get("at", 0) + _AFTER[after % len(_AFTER)]
    return {"at": at, "running": True} if which % 2 else {"at": at}

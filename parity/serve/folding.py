"""The frames of one choice, folded into what they say together.

A server may merge tokens into one frame under load, so nothing here depends on how tokens fall into frames:
what is made of tokens is joined, and everything else is kept as the distinct values that were said.
"""

from __future__ import annotations

from typing import Any

from parity.observation import Choice
from parity.scenario import Json
from parity.serve.normalise import ANY, CUT

Object = dict[str, Any]

TEXTS = ("text", "content", "reasoning", "reasoning_content", "arguments")
LISTS = ("token_ids",)
_SAYS_TOKENS = (*TEXTS, *LISTS, "tool_calls", "logprobs")
_STANDING = ("index", "finish_reason", "stop_reason", "prompt_token_ids", "prompt_logprobs", "role", "delta")
_KNOWN = frozenset((*_SAYS_TOKENS, *_STANDING))


class FoldedChoice:
    """Collects a choice's frames in order; `choice` gives what they say together."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._kinds: list[str] = []
        self._parts: list[Object] = []
        self._finishes: list[Object] = []

    @property
    def is_whole(self) -> bool:
        """Whether it came to an end of its own, and no abort cut it off."""
        return bool(self._finishes) and all(finish["finish_reason"] != "abort" for finish in self._finishes)

    def add(self, choice: Object, frame: Object) -> None:
        """One frame's part for this choice; `frame` is what stands beside the choices."""
        self._parts.append({**choice, "frame": frame})
        for kind in self._kinds_of(choice):
            if kind != "tokens" or self._kinds[-1:] != ["tokens"]:
                self._kinds.append(kind)
        if choice.get("finish_reason") is not None:
            usage_out = {key: value for key, value in frame.items() if key != "usage"}
            self._finishes.append({**without_tokens(choice), "frame": usage_out})

    def choice(self, *, cut: bool) -> Choice:
        """The choice; with `cut`, tokens whose number is a matter of time are left out unless it is whole."""
        finish = distinct(list(self._finishes)) if self._finishes else None
        if cut and not self.is_whole:
            return Choice(index=self._index, kinds=["finish"] if finish else [], joined=CUT, finish=finish)
        return Choice(index=self._index, kinds=list(self._kinds), joined=joined(self._parts), finish=finish)

    def _kinds_of(self, choice: Object) -> list[str]:
        delta = choice.get("delta")
        said = {**choice, **(delta if isinstance(delta, dict) else {})}
        tokens = any(said.get(key) for key in _SAYS_TOKENS)
        finish = said.get("finish_reason") is not None
        kinds = []
        if said.get("role") is not None:
            kinds.append("role+tokens" if tokens else "role")
        elif tokens:
            kinds.append("tokens")
        if any(value is not None for key, value in said.items() if key not in _KNOWN):
            kinds.append("other")
        if finish:
            kinds.append("finish")
        if not kinds and self._finishes:
            kinds.append("empty")
        return kinds


def joined(parts: list[Object]) -> Object:
    """Objects that were said one after the other, as one: its keys are all that stood in any of them."""
    keys = dict.fromkeys(key for part in parts for key in part)
    return {key: _join(key, [part[key] for part in parts if key in part]) for key in keys}


def _join(key: str, said: list[Json]) -> Json:
    values = [value for value in said if value is not None]
    if not values:
        return None
    if key in TEXTS and all(isinstance(value, str) for value in values):
        return "".join(values)
    if key in LISTS and all(isinstance(value, list) for value in values):
        return [item for value in values for item in value]
    if key == "usage":
        return values[-1]
    if key == "logprobs" and all(isinstance(value, dict) for value in values):
        return _join_logprobs(values)
    if key in ("delta", "function", "frame") and all(isinstance(value, dict) for value in values):
        return joined(values)
    if key == "tool_calls" and all(_are_calls(value) for value in values):
        return _join_calls([call for value in values for call in value])
    return distinct(values)


def _join_logprobs(said: list[Object]) -> Object:
    """Lists of one entry a token, in both endpoints' shapes, one after the other."""
    keys = dict.fromkeys(key for part in said for key in part)
    result: Object = {}
    for key in keys:
        values = [part[key] for part in said if part.get(key) is not None]
        if key == "text_offset":
            result[key] = ANY if values else None
        elif values and all(isinstance(value, list) for value in values):
            result[key] = [item for value in values for item in value]
        else:
            result[key] = distinct(values) if values else None
    return result


def _are_calls(value: Json) -> bool:
    return isinstance(value, list) and all(
        isinstance(call, dict) and isinstance(call.get("index"), int) for call in value
    )


def _join_calls(calls: list[Object]) -> list[Object]:
    indices = dict.fromkeys(call["index"] for call in calls)
    return [joined([call for call in calls if call["index"] == index]) for index in indices]


def distinct(values: list[Json]) -> Json:
    """The value, or where there are several `{"distinct": [...]}` in order of appearance."""
    found: list[Json] = []
    for value in values:
        if not any(value == other and type(value) is type(other) for other in found):
            found.append(value)
    return found[0] if len(found) == 1 else {"distinct": found}


def without_tokens(choice: Object) -> Object:
    """A frame's choice with null in the place of what its tokens said; which keys it has stays visible."""
    result: Object = {}
    for key, value in choice.items():
        if key == "delta" and isinstance(value, dict):
            result[key] = without_tokens(value)
        else:
            result[key] = None if key in _SAYS_TOKENS else value
    return result

"""The frames of one choice, folded into what they say together.

A server may merge tokens into one frame under load, so nothing here depends on how tokens fall into frames:
what is made of tokens is joined, and everything else is kept as the distinct values that were said. How many frames of
tokens come before the finish is open, down to none, so their keys are told by how they depart from the finish's.
"""

from __future__ import annotations

from typing import Any

import msgspec

from parity.observation import Choice
from parity.scenario import Json
from parity.serve.normalise import ANY, CUT, cut_usage

Object = dict[str, Any]

TEXTS = ("text", "content", "reasoning", "reasoning_content", "arguments")
LISTS = ("token_ids",)
_SAYS_TOKENS = (*TEXTS, *LISTS, "tool_calls", "logprobs")
_STANDING = ("index", "finish_reason", "stop_reason", "prompt_token_ids", "prompt_logprobs", "role", "delta")
_KNOWN = frozenset((*_SAYS_TOKENS, *_STANDING))
_OF_A_FINISH = frozenset({"frame.system_fingerprint"})  # keys that only the frame with the finish has
_OF_A_CHAT_FINISH = _OF_A_FINISH | {"stop_reason"}
_PARSED = frozenset({"delta.reasoning", "delta.reasoning_content", "delta.tool_calls"})
_BESIDE_TOKENS = 3  # frames of a choice that need no token of their own: role, echo, finish


class FoldedChoice:
    """Collects a choice's frames in order; `choice` gives what they say together."""

    def __init__(self, index: int) -> None:
        self.index = index
        self._kinds: list[str] = []
        self._parts: list[Object] = []
        self._finishes: list[Object] = []
        self._keys: dict[str, set[frozenset[str]]] = {}

    @property
    def is_whole(self) -> bool:
        """Whether it came to an end of its own, and no abort cut it off."""
        return bool(self._finishes) and all(finish["finish_reason"] != "abort" for finish in self._finishes)

    def add(self, choice: Object, frame: Object) -> list[str]:
        """One frame's part for this choice; `frame` is what stands beside the choices. Gives the frame's kinds."""
        self._parts.append({**choice, "frame": frame})
        kinds = self._kinds_of(choice)
        for kind in kinds:
            if kind != "tokens" or self._kinds[-1:] != ["tokens"]:
                self._kinds.append(kind)
        self._keys.setdefault(_kind_of_keys(kinds), set()).add(_paths(choice, frame))
        if choice.get("finish_reason") is not None:
            usage_out = {key: value for key, value in frame.items() if key != "usage"}
            finish = {**without_tokens(choice), "frame": usage_out}
            if len(self._parts) == 1 and "prompt_token_ids" in finish:
                finish["prompt_token_ids"] = (
                    None  # said on a choice's first frame, which is the finish if all was merged
                )
            self._finishes.append(finish)
        return kinds

    def choice(self, *, cut: bool) -> Choice:
        """The choice; with `cut`, of tokens whose number is a matter of time only the first, unless it is whole."""
        finish = distinct(list(self._finishes)) if self._finishes else None
        said, kinds = joined(self._parts), list(self._kinds)
        if cut and not self.is_whole:
            said, kinds = _cut(said), _cut_kinds(kinds)
        return Choice(self.index, kinds, said, finish, keys=self._told_keys())

    def has_more_frames_than(self, tokens: int) -> bool:
        """Whether not every frame can have a token of its own; told ids and log probabilities are counted too."""
        said = joined(self._parts)
        logprobs = said.get("logprobs")
        listed = logprobs.get("tokens", logprobs.get("content")) if isinstance(logprobs, dict) else None
        for tokens_told in (said.get("token_ids"), listed):
            tokens = min(tokens, len(tokens_told)) if isinstance(tokens_told, list) else tokens
        return len(self._parts) > tokens + _BESIDE_TOKENS

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

    def _told_keys(self) -> Object:
        """Frames' keys by kind; those of frames of tokens as what they lack and have in comparison with the finish."""
        told: Object = {}
        if "role" in self._keys:
            told["role"] = sorted(sorted(keys) for keys in self._keys["role"])
        finish = self._keys.get("finish")
        others = self._keys.get("tokens", set())
        if finish is None:
            return {**told, "tokens": sorted(sorted(keys) for keys in others)} if others else told
        if len(finish) > 1:
            told["finish"] = sorted(sorted(keys) for keys in finish)
        expected = min(finish, key=sorted)
        expected -= _OF_A_CHAT_FINISH if any("delta" in part for part in self._parts) else _OF_A_FINISH
        if any(keys & _PARSED for sets in self._keys.values() for keys in sets):
            tokens = frozenset(f"delta.{key}" for key in _SAYS_TOKENS)
            expected, others = expected - tokens, {keys - tokens for keys in others}
        departures = sorted((sorted(expected - keys), sorted(keys - expected)) for keys in others)
        departures = [departure for departure in departures if any(departure)]
        if departures:
            told["tokens"] = [{"lacks": lacks, "has": has} for lacks, has in departures]
        return told


def _kind_of_keys(kinds: list[str]) -> str:
    if "finish" in kinds:
        return "finish"
    return "role" if any(kind.startswith("role") for kind in kinds) else "tokens"


def _paths(choice: Object, frame: Object) -> frozenset[str]:
    """A frame's keys: of the choice, its delta and what stands beside the choices."""
    delta = choice.get("delta")
    inner = [f"delta.{key}" for key in delta] if isinstance(delta, dict) else []
    return frozenset([*choice, *inner, *(f"frame.{key}" for key in frame)])


def _cut(said: Object) -> Object:
    """What was said with the first of its tokens alone: as much as every client saw that saw a token."""
    result: Object = {}
    for key, value in said.items():
        if key in ("delta", "frame") and isinstance(value, dict):
            result[key] = _cut(value)
        elif key == "logprobs" and isinstance(value, dict):
            result[key] = {name: item[:1] if isinstance(item, list) else item for name, item in value.items()}
        elif (key in TEXTS and isinstance(value, str)) or (key in LISTS and isinstance(value, list)):
            result[key] = value[:1]
        elif key == "usage":
            result[key] = cut_usage(value)
        else:
            result[key] = CUT if key == "tool_calls" and value is not None else value
    return result


def _cut_kinds(kinds: list[str]) -> list[str]:
    """`cut` in the stead of tokens, which may not have come yet."""
    others = [kind for kind in kinds if kind != "tokens"]
    roles = len([kind for kind in others if kind.startswith("role")])
    return [*others[:roles], CUT, *others[roles:]]


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
    """The value, or where there are several `{"distinct": [...]}` in order of appearance; 1, 1.0 and true are three."""
    found: dict[bytes, Json] = {}
    for value in values:
        found.setdefault(msgspec.json.encode(value, order="sorted"), value)
    several = list(found.values())
    return several[0] if len(several) == 1 else {"distinct": several}


def without_tokens(choice: Object) -> Object:
    """A frame's choice with null in the place of what its tokens said; which keys it has stays visible."""
    result: Object = {}
    for key, value in choice.items():
        if key == "delta" and isinstance(value, dict):
            result[key] = without_tokens(value)
        else:
            result[key] = None if key in _SAYS_TOKENS else value
    return result

"""A choice's tokens with their log probabilities, one view of both endpoints' forms, and the way back.

Completions have parallel lists (`tokens`, `token_logprobs`, `top_logprobs`, `text_offset`), chat a list of objects
(`content`). A view keeps each token's own JSON, so that what is put back is what was taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from parity.scenario import Json

Object = dict[str, Any]
_COMPLETION_LISTS = ("tokens", "token_logprobs", "top_logprobs", "text_offset")


class Place(msgspec.Struct, frozen=True):
    """One token: its name, its text, its log probability, the alternatives, and the JSON that it stands in.

    Alternatives are (name, log probability). Names tell tokens apart as far as the answer does: by text in completions, by bytes in chat.
    """

    token: str
    text: str
    value: float | None
    alternatives: tuple[tuple[str, float], ...]
    raw: Object


class TokenList(msgspec.Struct, frozen=True):
    kind: Literal["completions", "chat"]
    places: tuple[Place, ...]


def token_list(choice: Object) -> TokenList | None:
    """The choice's tokens, or null where it has none with log probabilities in a form that is known."""
    logprobs = choice.get("logprobs")
    if not isinstance(logprobs, dict):
        return None
    if isinstance(logprobs.get("tokens"), list):
        return _of_completion(logprobs)
    if isinstance(logprobs.get("content"), list):
        return _of_chat(logprobs["content"])
    return None


def shared_start(oracle: Object, subject: Object) -> tuple[Object, Object]:
    """Two choices as far as they list the same tokens; as they are where both do, or where one lists none."""
    left, right = token_list(oracle), token_list(subject)
    if left is None or right is None or left.kind != right.kind:
        return oracle, subject
    number = 0
    for theirs, ours in zip(left.places, right.places, strict=False):
        if theirs.token != ours.token:
            break
        number += 1
    return with_tokens(oracle, left, left.places[:number]), with_tokens(subject, right, right.places[:number])


def with_tokens(choice: Object, tokens: TokenList, places: Sequence[Place]) -> Object:
    """The choice with these places in the stead of the ones that `tokens` was read from."""
    logprobs = choice["logprobs"]
    if tokens.kind == "chat":
        return {**choice, "logprobs": {**logprobs, "content": [place.raw for place in places]}}
    lists = {key: [place.raw.get(key) for place in places] for key in _lists(logprobs)}
    return {**choice, "logprobs": {**logprobs, **lists}}


def _lists(logprobs: Object) -> list[str]:
    return [key for key in _COMPLETION_LISTS if isinstance(logprobs.get(key), list)]


def _of_completion(logprobs: Object) -> TokenList | None:
    lists = {key: logprobs[key] for key in _lists(logprobs)}
    number = len(lists["tokens"])
    if any(len(values) != number for values in lists.values()):
        return None
    if not all(isinstance(token, str) for token in lists["tokens"]):
        return None
    places = []
    for index, token in enumerate(lists["tokens"]):
        raw = {key: values[index] for key, values in lists.items()}
        top = raw.get("top_logprobs")
        alternatives = tuple(top.items()) if isinstance(top, dict) and _are_numbers(top.values()) else ()
        values = [raw.get("token_logprobs")]
        value = values[0] if _are_numbers(values) else None
        places.append(Place(token, token, value, alternatives, raw))
    return TokenList("completions", tuple(places))


def _of_chat(content: list[Json]) -> TokenList | None:
    if not all(_is_token(entry) for entry in content):
        return None
    places = []
    for entry in content:
        top = entry.get("top_logprobs")
        known = isinstance(top, list) and all(_is_token(item) for item in top)
        alternatives = tuple((_name(item), item["logprob"]) for item in top) if known else ()
        places.append(Place(_name(entry), entry["token"], entry["logprob"], alternatives, entry))
    return TokenList("chat", tuple(places))


def _is_token(entry: Json) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("token"), str)
        and _are_numbers([entry.get("logprob")])
    )


def _are_numbers(values: Any) -> bool:
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)


def _name(entry: Object) -> str:
    """Two tokens with the same text may have other bytes: parts of a character."""
    return f"{entry['token']}\x00{entry.get('bytes')}"

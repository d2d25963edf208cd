"""The one place that says what of an answer is not compared, and what stands in its stead.

| what | becomes |
|---|---|
| `id`, `request_id`: a word of ID_WORDS, a dash or underscore and at least 16 hex digits | the word, a dash, and a number by first appearance in the exchange |
| `created`, `created_at`: an integer | `*` |
| `system_fingerprint`: a text | `*` |
| `message` of an `error` object: a text that is not empty | `*` |
| the model's folder, wherever it is a whole text (`root` of /v1/models) | `<model>` |
| the server's own address at the head of `location` | gone |
| headers | those of HEADERS |
| the text of `/metrics` | running, waiting, waiting_by_reason, cache_in_use |
| `text_offset` of a stream's logprobs (it moves with how tokens are merged into frames) | `*` |
| tokens whose number is a matter of time (what came before a client gave up or a signal cut in) | `cut` |

Anything else is compared, unknown keys included. A value of another type than the table says stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from parity.scenario import Json
from parity.serve import metrics

ANY = "*"
CUT = "cut"
MODEL = "<model>"

HEADERS = (
    "content-type",  # how to read the body
    "content-encoding",  # the same
    "www-authenticate",  # 401: what to bring
    "allow",  # 405: what would have been right
    "location",  # where to go instead
    "retry-after",  # 429 and 503: when to come back
    "access-control-allow-origin",  # whether a browser hands the answer to its page
)
IDS = ("id", "request_id")
ID_WORDS = ("cmpl", "chatcmpl", "chatcmpl-tool", "modelperm", "generate-tokens", "resp", "msg")
CREATED = ("created", "created_at")

_ID = re.compile(rf"({'|'.join(ID_WORDS)})[-_][0-9a-f][0-9a-f-]{{15,}}")
_IN_TEXT = re.compile(rf'(?<="){_ID.pattern}(?=")')
_CREATED = re.compile(r'("created":\s*)\d+')


class Scrubber:
    """Normalises the JSON of one exchange. Two ids that differ stay two, also across a stream's frames."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._ids: dict[str, str] = {}

    def json(self, value: Json) -> Json:
        if isinstance(value, dict):
            return {key: self._member(key, item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.json(item) for item in value]
        return MODEL if value == self._model else value

    def fragment(self, text: str) -> str:
        """JSON that was cut off: the same as far as it can be done in a text."""
        text = _IN_TEXT.sub(lambda found: self._id(found[0]), text)
        return _CREATED.sub(rf"\g<1>{ANY}", text).replace(self._model, MODEL)

    def _member(self, key: str, value: Json) -> Json:
        if key in IDS and isinstance(value, str):
            return self._id(value)
        if key in CREATED and isinstance(value, int) and not isinstance(value, bool):
            return ANY
        if key == "system_fingerprint" and isinstance(value, str):
            return ANY
        if key == "error" and isinstance(value, dict):
            return {name: self._of_error(name, item) for name, item in value.items()}
        return self.json(value)

    def _of_error(self, name: str, value: Json) -> Json:
        return ANY if name == "message" and isinstance(value, str) and value else self._member(name, value)

    def _id(self, value: str) -> str:
        found = _ID.fullmatch(value)
        if found is None:
            return value
        return self._ids.setdefault(value, f"{found[1]}-{len(self._ids) + 1}")


def headers(raw: Mapping[str, str], base_url: str) -> dict[str, str]:
    """Those that a client relies on, by lower-case name, in the order of HEADERS."""
    kept = {name: raw[name] for name in HEADERS if name in raw}
    if "location" in kept:
        kept["location"] = kept["location"].removeprefix(base_url)
    return kept


def body(content: bytes, path: str, model: str) -> Json:
    """A body: JSON with what is not compared replaced, or else its text."""
    text = content.decode(errors="backslashreplace")
    if path.partition("?")[0] == "/metrics":
        return _load(text)
    try:
        value = msgspec.json.decode(content)
    except msgspec.DecodeError:
        return Scrubber(model).fragment(text)
    return Scrubber(model).json(value)


def _load(text: str) -> Json:
    try:
        load = metrics.parse(text)
    except metrics.MetricsUnreadable:
        return text
    return {
        "running": load.running,
        "waiting": load.waiting,
        "waiting_by_reason": load.waiting_by_reason,
        "cache_in_use": load.cache_in_use,
    }


def cut(value: Json) -> Json:
    """A body whose choices were aborted while tokens came: their tokens and the usage's sums are left out."""
    if not isinstance(value, dict) or not isinstance(value.get("choices"), list):
        return value
    aborted = [
        isinstance(choice, dict) and choice.get("finish_reason") == "abort" for choice in value["choices"]
    ]
    if not any(aborted):
        return value
    choices = [
        _cut_choice(choice) if ended else choice
        for choice, ended in zip(value["choices"], aborted, strict=True)
    ]
    return {**value, "choices": choices, "usage": cut_usage(value.get("usage"))}


def cut_usage(usage: Json) -> Json:
    if not isinstance(usage, dict):
        return usage
    return {key: CUT if key in ("completion_tokens", "total_tokens") else item for key, item in usage.items()}


def _cut_choice(choice: dict[str, Any]) -> dict[str, Any]:
    tokens = ("text", "message", "logprobs", "token_ids")
    return {key: CUT if key in tokens and item is not None else item for key, item in choice.items()}

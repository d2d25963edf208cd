"""The one place that says what of an answer is not compared, and what stands in its stead.

| what | becomes |
|---|---|
| `id`, `request_id`: a word of ID_WORDS, its separator and at least 16 hex digits | the word, a dash, and a number by first appearance in the exchange; ` of` and the earlier exchange where that one had the same id; the other separator and `#` where it is not the word's own |
| `created`, `created_at`: an integer, within a day of now | `*` |
| `system_fingerprint`: a text | `*` |
| `message` of an `error` object: a text that is not empty | `*` |
| the model's folder, wherever it is a whole text (`root` of /v1/models) | `<model>` |
| the server's own address at the head of `location` | gone |
| headers | those of HEADERS |
| the text of `/metrics` | running, waiting, waiting_by_reason, cache_in_use |
| `text_offset` of a stream's logprobs (it moves with how tokens are merged into frames) | `*` |
| tokens whose number is a matter of time (what came before a client gave up or a signal cut in) | `cut` |

Anything else is compared, unknown keys included. A value of another type than the table says stays as it is, and a
text that already reads like one of the stand-ins gets `= ` in front.

Different answers stay different: a body that is JSON stands as its value, any other as its text (one that is no UTF-8
as `{"latin-1": text}`), and so a JSON text or null, or an object that looks like one of these wrappers, as
`{"json": value}`. JSON with keys that stand twice is `{"oddity": [...], "json": value}`; -0.0, which equals 0.0, is
`{"number": "-0.0"}` unless it is a log probability.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from typing import Any

from parity import numerics
from parity.scenario import Json
from parity.serve import jsontext, metrics

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
ID_WORDS = {  # word → what separates it from the digits
    "cmpl": "-",
    "chatcmpl": "-",
    "chatcmpl-tool": "-",
    "modelperm": "-",
    "generate-tokens": "-",
    "resp": "_",
    "msg": "_",
}
CREATED = ("created", "created_at")
DAY = 86_400  # seconds
WRAPPERS = (
    {"json"},
    {"latin-1"},
    {"oddity", "json"},
    {"number"},
    {"oddity"},
    {"partial"},
    {"fields", "data"},
)

_WORD = "|".join(ID_WORDS)
_ID = re.compile(rf"({_WORD})([-_])[0-9a-f][0-9a-f-]{{15,}}")
_LIKE_ID = re.compile(rf"(?:= )*({_WORD})[-_]#?\d+( of .*)?")
_LIKE_MARK = re.compile(rf"(?:= )*({re.escape(ANY)}|{re.escape(MODEL)})")
_IN_TEXT = re.compile(rf'(?<="){_ID.pattern}(?=")')
_CREATED = re.compile(r'("created":\s*)(\d{1,15})(?!\d)')


class Scrubber:
    """Normalises the JSON of one exchange. Two ids that differ stay two, also across a stream's frames.

    `seen` is shared by a play's exchanges, so that an id that comes back in another one shows: id → its stand-in
    and its exchange.
    """

    def __init__(self, model: str, exchange: str = "", seen: dict[str, str] | None = None) -> None:
        self._model = model
        self._exchange = exchange
        self._seen = {} if seen is None else seen
        self._ids: dict[str, str] = {}
        self._numbered = 0
        self._now = time.time()

    def json(self, value: Json, *, near: bool = False) -> Json:
        """The value normalised; `near` within log probabilities, where -0.0 is 0.0."""
        if isinstance(value, dict):
            return {
                key: self._member(key, item, near=near or key in numerics.KEYS) for key, item in value.items()
            }
        if isinstance(value, list):
            return [self.json(item, near=near) for item in value]
        if isinstance(value, float) and value == 0.0 and not near and math.copysign(1.0, value) < 0:
            return {"number": "-0.0"}
        if value == self._model:
            return MODEL
        return _literal(value) if isinstance(value, str) and value.endswith(MODEL) else value

    def read(self, content: bytes) -> tuple[Json, list[str]]:
        """JSON normalised, such that it is no stand-in for a text, and its oddities. Raises NoJson."""
        raw, oddities = jsontext.read(content)
        value = self.json(raw)
        is_like_wrapper = isinstance(raw, dict) and set(raw) in WRAPPERS
        is_wrapped = raw is None or isinstance(raw, str) or is_like_wrapper
        return {"json": value} if is_wrapped else value, oddities

    def fragment(self, text: str) -> str:
        """What is no JSON, or was cut off: the same as far as it can be done in a text."""
        text = _IN_TEXT.sub(lambda found: self._id(found[0]), text)
        text = _CREATED.sub(lambda found: found[1] + (ANY if self._is_now(int(found[2])) else found[2]), text)
        return text.replace(self._model, MODEL)

    def _member(self, key: str, value: Json, *, near: bool) -> Json:
        if key in IDS and isinstance(value, str):
            return self._id(value)
        if key in CREATED and isinstance(value, int) and not isinstance(value, bool):
            return ANY if self._is_now(value) else value
        if key in CREATED and isinstance(value, str):
            return _literal(value)
        if key == "system_fingerprint" and isinstance(value, str):
            return ANY
        if key == "error" and isinstance(value, dict):
            return {name: self._of_error(name, item) for name, item in value.items()}
        return self.json(value, near=near)

    def _of_error(self, name: str, value: Json) -> Json:
        if name == "message" and isinstance(value, str) and value:
            return ANY
        return self._member(name, value, near=False)

    def _is_now(self, seconds: int) -> bool:
        return abs(seconds - self._now) <= DAY

    def _id(self, value: str) -> str:
        found = _ID.fullmatch(value)
        if found is None:
            return f"= {value}" if _LIKE_ID.fullmatch(value) else value
        if value not in self._ids:
            self._ids[value] = self._seen[value] if value in self._seen else self._new(found[1], found[2])
            self._seen.setdefault(value, f"{self._ids[value]} of {self._exchange}")
        return self._ids[value]

    def _new(self, word: str, separator: str) -> str:
        self._numbered += 1
        return (
            f"{word}-{self._numbered}"
            if separator == ID_WORDS[word]
            else f"{word}{separator}#{self._numbered}"
        )


def _literal(value: str) -> str:
    return f"= {value}" if _LIKE_MARK.fullmatch(value) else value


def headers(raw: Mapping[str, str], base_url: str) -> dict[str, str]:
    """Those that a client relies on, by lower-case name, in the order of HEADERS."""
    kept = {name: raw[name] for name in HEADERS if name in raw}
    if "location" in kept:
        kept["location"] = kept["location"].removeprefix(base_url)
    return kept


def body(content: bytes, path: str, scrubber: Scrubber) -> Json:
    """A body: its JSON with what is not compared replaced, or else its text."""
    if path.partition("?")[0] == "/metrics":
        return _load(content.decode(errors="backslashreplace"))
    try:
        value, oddities = scrubber.read(content)
    except jsontext.NoJson:
        return text(content, scrubber)
    return {"oddity": oddities, "json": value} if oddities else value


def text(content: bytes, scrubber: Scrubber) -> Json:
    """Bytes that are no JSON, as their text."""
    try:
        return scrubber.fragment(content.decode())
    except UnicodeDecodeError:
        return {"latin-1": scrubber.fragment(content.decode("latin-1"))}


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
    usage = {"usage": cut_usage(value["usage"])} if "usage" in value else {}
    return {**value, "choices": choices, **usage}


def cut_usage(usage: Json) -> Json:
    if not isinstance(usage, dict):
        return usage
    return {key: CUT if key in ("completion_tokens", "total_tokens") else item for key, item in usage.items()}


def _cut_choice(choice: dict[str, Any]) -> dict[str, Any]:
    tokens = ("text", "message", "logprobs", "token_ids")
    return {key: CUT if key in tokens and item is not None else item for key, item in choice.items()}

"""A raw exchange as the answer that is compared: a body, or a stream with its frames folded by choice."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from parity.observation import Answer, Choice, Stream
from parity.scenario import Exchange, Json
from parity.serve import jsontext, normalise, sse
from parity.serve.exchange import Raw
from parity.serve.folding import FoldedChoice
from parity.serve.target import Target
from parity.serve.usages import Usages

DONE = "[DONE]"
CHOICES = "frames of choices"  # stands in `rest` where choices went on; first where they were interrupted
TOO_MANY = "more frames than tokens"

Object = dict[str, Any]


def answer(exchange: Exchange, raw: Raw, target: Target, seen: dict[str, str] | None = None) -> Answer:
    """What the client saw; `seen` is what `normalise.Scrubber` shares within a play.

    Of a client that hung up by itself, the frames for which it stayed: how much more came is a matter of time.
    """
    scrubber = normalise.Scrubber(target.model, exchange.id, seen)
    body: Json = None
    stream: Stream | None = None
    if raw.status is not None and raw.is_stream:
        frames = (exchange.leave_after or 1) if raw.ending == "left" else None
        limit = _asked_tokens(exchange)
        stream = streamed(raw.content, scrubber, timed=raw.timed, frames=frames, max_tokens=limit)
    elif raw.status is not None and raw.ending != "left" and (raw.content or raw.ending == "answered"):
        body = normalise.body(raw.content, exchange.path, scrubber)
        body = normalise.cut(body) if raw.timed else body
    return Answer(
        id=exchange.id,
        ending=raw.ending,
        status=raw.status,
        headers=normalise.headers(raw.headers, target.base_url),
        body=body,
        stream=stream,
    )


def streamed(
    content: bytes,
    scrubber: normalise.Scrubber,
    *,
    timed: bool = False,
    frames: int | None = None,
    max_tokens: int | None = None,
) -> Stream | None:
    """A stream's bytes, whole or not, in canonical form; what may be cut of a `timed` one is.

    With `frames`, no more than the first so many data frames, and none where fewer came. `max_tokens` is the most
    that a choice may have, where that is known.
    """
    reader = sse.read(content, frames)
    if frames is not None and reader.data_frames < frames:
        return None
    folding = _Folding(scrubber)
    for frame in reader.frames:
        folding.take(frame)
    return folding.stream(reader.oddities, timed=timed, alike=frames is not None, max_tokens=max_tokens)


def _asked_tokens(exchange: Exchange) -> int | None:
    """How many tokens a choice of the answer has at most, where the request says so."""
    try:
        asked = json.loads(exchange.content or "null")
    except (ValueError, RecursionError):
        return None
    asked = asked if isinstance(asked, dict) else {}
    limits = [asked.get(key) for key in ("max_tokens", "max_completion_tokens")]
    return max((limit for limit in limits if type(limit) is int), default=None)


class _Folding:
    """A stream under way: choices by index, what belongs to none, and where a usage stood."""

    def __init__(self, scrubber: normalise.Scrubber) -> None:
        self._scrubber = scrubber
        self._choices: dict[int, FoldedChoice] = {}
        self._rest: list[Json] = []
        self._began = 0  # entries of `rest` that stand before the first choice
        self._usages = Usages()
        self._oddities: set[str] = set()

    def take(self, frame: sse.Frame) -> None:
        if frame.kind == "comment":
            self._rest.append(frame.text)
        elif frame.kind == "partial":
            self._rest.append({"partial": self._scrubber.fragment(frame.text)})
        elif frame.kind == "fields" or frame.fields:
            self._rest.append(
                {"fields": [list(field) for field in frame.fields], "data": self._data(frame.text)}
            )
        else:
            self._take_data(self._data(frame.text))

    def stream(self, oddities: set[str], *, timed: bool, alike: bool, max_tokens: int | None) -> Stream:
        """The stream; with `alike`, without choices that are like an earlier one but for their tokens."""
        folded = [self._choices[index] for index in sorted(self._choices)]
        cut = timed and not (folded and all(choice.is_whole for choice in folded))
        if self._have_too_many_frames(folded, max_tokens):
            self._oddities.add(TOO_MANY)
        rest = [self._cut_rest(entry) for entry in self._rest] if cut else list(self._rest)
        if not self._began and CHOICES in rest:
            rest.insert(0, CHOICES)
        choices = [choice.choice(cut=cut) for choice in folded]
        return Stream(
            choices=_unlike(choices) if alike else choices,
            rest=[*rest, *({"oddity": oddity} for oddity in sorted(oddities | self._oddities))],
            usage=self._usages.verdict(),
        )

    def _data(self, text: str) -> Json:
        """A frame's JSON, normalised; `[DONE]` as it is; any other text marked as data that is no JSON."""
        if text in (DONE, ""):
            return text
        try:
            value, oddities = self._scrubber.read(text.encode())
        except jsontext.NoJson:
            return f"data: {text}"
        self._oddities.update(oddities)
        return value

    def _take_data(self, value: Json) -> None:
        if not isinstance(value, dict):
            self._rest.append(value)
            return
        choices = _choices(value)
        beside = {key: item for key, item in value.items() if key != "choices"}
        if not choices:
            self._usages.alone(value)
            self._rest.append(value)
            return
        if not self._choices:
            self._began = len(self._rest)
        if self._rest and self._rest[-1] != CHOICES:
            self._rest.append(CHOICES)
        kinds: list[str] = []
        for choice in choices:
            folded = self._choices.setdefault(choice["index"], FoldedChoice(choice["index"]))
            kinds += folded.add(choice, beside)
        self._usages.on_choices([choice["index"] for choice in choices], kinds, value)

    def _have_too_many_frames(self, folded: list[FoldedChoice], max_tokens: int | None) -> bool:
        limits = [limit for limit in (max_tokens, self._usages.total) if limit is not None]
        return bool(limits) and any(choice.has_more_frames_than(min(limits)) for choice in folded)

    def _cut_rest(self, entry: Json) -> Json:
        if isinstance(entry, dict) and "usage" in entry:
            return {**entry, "usage": normalise.cut_usage(entry["usage"])}
        if isinstance(entry, dict) and set(entry) == {"partial"}:
            return {"partial": normalise.CUT}
        return entry


def _choices(frame: Object) -> list[Object]:
    """The frame's choices, none unless all of them are choices with an index."""
    found = frame.get("choices")
    if not isinstance(found, list):
        return []
    if not all(isinstance(choice, dict) and type(choice.get("index")) is int for choice in found):
        return []
    return found


def _unlike(choices: list[Choice]) -> list[Choice]:
    """Those whose kinds, keys or frames none before has: which choices come first is a matter of time."""
    found: dict[bytes, Choice] = {}
    for choice in choices:
        said = choice.joined if isinstance(choice.joined, dict) else {}
        shape = (choice.kinds, choice.keys, sorted(said), said.get("frame"))
        found.setdefault(msgspec.json.encode(shape, order="sorted"), choice)
    return list(found.values())

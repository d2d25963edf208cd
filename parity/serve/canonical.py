"""A raw exchange as the answer that is compared: a body, or a stream with its frames folded by choice."""

from __future__ import annotations

from typing import Any

import msgspec

from parity.observation import Answer, Stream
from parity.scenario import Exchange, Json
from parity.serve import normalise, sse
from parity.serve.exchange import Raw
from parity.serve.folding import FoldedChoice
from parity.serve.target import Target

DONE = "[DONE]"
CHOICES = "frames of choices"  # stands in `rest` where choices go on after a frame that belongs to none

Object = dict[str, Any]


def answer(exchange: Exchange, raw: Raw, target: Target) -> Answer:
    """What the client saw. Of a client that hung up by itself, no content: how much came is a matter of time."""
    body: Json = None
    stream: Stream | None = None
    if raw.status is not None and raw.ending != "left":
        if raw.is_stream:
            stream = streamed(raw.content, target.model, timed=raw.timed)
        elif raw.content or raw.ending == "answered":
            body = normalise.body(raw.content, exchange.path, target.model)
            body = normalise.cut(body) if raw.timed else body
    return Answer(
        id=exchange.id,
        ending=raw.ending,
        status=raw.status,
        headers=normalise.headers(raw.headers, target.base_url),
        body=body,
        stream=stream,
    )


def streamed(content: bytes, model: str, *, timed: bool = False) -> Stream:
    """A stream's bytes, whole or not, in canonical form; what may be cut of a `timed` one is."""
    reader = sse.read(content)
    folding = _Folding(normalise.Scrubber(model))
    for frame in reader.frames:
        folding.take(frame)
    return folding.stream(sorted(reader.oddities), timed=timed)


class _Folding:
    """A stream under way: choices by index, what belongs to none, and where a usage stood."""

    def __init__(self, scrubber: normalise.Scrubber) -> None:
        self._scrubber = scrubber
        self._choices: dict[int, FoldedChoice] = {}
        self._rest: list[Json] = []
        self._usages = _Usages()

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

    def stream(self, oddities: list[str], *, timed: bool) -> Stream:
        choices = [self._choices[index] for index in sorted(self._choices)]
        cut = timed and not all(choice.is_whole for choice in choices)
        rest = [self._cut_rest(entry) for entry in self._rest] if cut else self._rest
        return Stream(
            choices=[choice.choice(cut=cut) for choice in choices],
            rest=[*rest, *({"oddity": oddity} for oddity in oddities)],
            usage=self._usages.verdict(),
        )

    def _data(self, text: str) -> Json:
        """A frame's JSON, normalised; `[DONE]` as it is; any other text marked as data that is no JSON."""
        if text in (DONE, ""):
            return text
        try:
            value = msgspec.json.decode(text.encode())
        except msgspec.DecodeError:
            return f"data: {text}"
        return self._scrubber.json(value)

    def _take_data(self, value: Json) -> None:
        if not isinstance(value, dict):
            self._rest.append(value)
            return
        choices = _choices(value)
        beside = {key: item for key, item in value.items() if key != "choices"}
        if not choices:
            self._usages.add([], value)
            self._rest.append(value)
            return
        if self._rest and self._rest[-1] != CHOICES:
            self._rest.append(CHOICES)
        self._usages.add([choice["index"] for choice in choices], value)
        for choice in choices:
            self._choices.setdefault(choice["index"], FoldedChoice(choice["index"])).add(choice, beside)

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


class _Usages:
    """On which frames a usage stood, and whether those of the choices rise to the one that stands alone."""

    def __init__(self) -> None:
        self._stood: list[bool] = []  # a frame of choices each: whether it had one
        self._by_choice: dict[int, int] = {}  # completion tokens that a choice's last usage tells
        self._alone: list[int | None] = []  # completion tokens of usages without choices
        self._decreasing = False

    def add(self, indices: list[int], frame: Object) -> None:
        usage = frame.get("usage")
        if indices:
            self._stood.append(usage is not None)
        if usage is None:
            return
        tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
        if not indices:
            self._alone.append(tokens)
        elif isinstance(tokens, int) and len(indices) == 1:
            self._decreasing |= tokens < self._by_choice.get(indices[0], 0)
            self._by_choice[indices[0]] = tokens

    def verdict(self) -> str:
        if self._decreasing:
            return "decreasing"
        if self._by_choice and self._alone and self._alone[-1] != sum(self._by_choice.values()):
            return "unequal"
        if any(self._stood):
            return "every" if all(self._stood) and self._alone else "some"
        return "last" if self._alone else "none"

"""Which of two documents is smaller: one total order, so that shrinking ends and the smallest find is the one that is kept."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from parity.fuzz.document import Document
from parity.models import models
from parity.scenario import Json

Size = tuple[int, int, int, int, int, int, int, int, str]


def size(document: Document) -> Size:
    """A document's place in the order, compared from left to right.

    Requests, or exchanges; aborts and resets, or actions; steps, as far as they can be told without playing (arrivals
    and tokens to generate); keys; the model's numbers a token; items of lists; sum of the numbers; length of the
    texts; and last the document itself as text, so that only equal documents are equal.
    """
    events = [*_entries(document, "aborts"), *_entries(document, "resets")]
    requests = _entries(document, "requests")
    actions = _entries(document, "script")
    moments = [_number(entry.get("at")) for entry in (*requests, *events)]
    body = {key: value for key, value in document.items() if key != "level"}
    values = list(_values(body))
    return (
        len(requests) + sum(_exchanges(action) for action in actions),
        len(events) + len(actions),
        sum(moments) + sum(_number(request.get("max_tokens")) for request in requests),
        sum(len(value) for value in values if isinstance(value, dict)),
        _model(document),
        sum(len(value) for value in values if isinstance(value, list)),
        sum(_weight(value) for value in values),
        sum(len(value) for value in values if isinstance(value, str)),
        as_key(document),
    )


def as_key(document: Document) -> str:
    """The document as one text, the order of its keys left out."""
    return msgspec.json.encode(document, order="sorted").decode()


def _entries(document: Document, key: str) -> list[dict[str, Json]]:
    found = document.get(key)
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def _exchanges(action: dict[str, Json]) -> int:
    together = action.get("at_once")
    return ("send" in action) + ("open" in action) + (len(together) if isinstance(together, list) else 0)


def _model(document: Document) -> int:
    config = document.get("config")
    shape = models().get(str(config.get("model"))) if isinstance(config, dict) else None
    return 0 if shape is None else shape.num_layers * shape.num_kv_heads * shape.head_size


def _values(value: Json) -> Iterator[Json]:
    """The value and everything below it."""
    yield value
    if isinstance(value, dict):
        for item in value.values():
            yield from _values(item)
    elif isinstance(value, list):
        for item in value:
            yield from _values(item)


def _number(value: Json) -> int:
    return abs(value) if isinstance(value, int) and not isinstance(value, bool) else 0


def _weight(value: Json) -> int:
    """A whole number's distance from 0; of a fraction how long it is."""
    return len(repr(value)) if isinstance(value, float) else _number(value)

"""The body of an exchange as the exact text that goes out: generated values expanded, the patch laid over.

A map whose keys begin with `$` is a generated value: `{$ids: N, $seed: S}` (N token ids of the model),
`{$repeat: TEXT, $times: N}` (a long text), `{$json: TEXT}` (any JSON value, numbers of any size included).
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from parity.document import Fault, Keys, dotted, nearest
from parity.prompts import MAX_TOKENS, generated
from parity.scenario import Json
from parity.serve.models import Served
from parity.serve_form import ExchangeForm

MAX_TEXT = 1 << 24  # characters of one generated text

_GENERATED: dict[str, tuple[str, ...]] = {
    "$ids": ("$ids", "$seed"),
    "$repeat": ("$repeat", "$times"),
    "$json": ("$json",),
}


def body_text(form: ExchangeForm, model: str, served: Served, keys: Keys) -> str:
    """The JSON text of `form.body`, which is set. Raises Fault at a key below `keys`."""
    body = form.body
    if form.patch is not None:
        place = (*keys, "patch")
        if not isinstance(body, dict):
            raise Fault("there is no body with keys to patch", place, hint="give body as a map")
        laid = parsed(form.patch, place)
        if not isinstance(laid, dict):
            raise Fault(f"{form.patch[:40]!r} is no JSON object", place, hint="""such as '{"n": 2}'""")
        body = {**body, **laid}
    if isinstance(body, dict) and not any(key.startswith("$") for key in body):
        body = {"model": model, **body}
    value = _Expansion(f"id:{form.id}", served, (*keys, "body")).expand(body, ())
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        raise Fault("holds a number that JSON does not have", (*keys, "body")) from None


def parsed(text: str, keys: Keys) -> Json:
    """The JSON value of `text`. Raises Fault, also for NaN and Infinity, which are no JSON."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Fault(f"{text[:40]!r} is no JSON: {error}", keys) from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


class _Expansion:
    """One body; ids are derived from the exchange's id and the place in the body, or from `$seed` alone."""

    def __init__(self, seed: str, served: Served, keys: Keys) -> None:
        self._seed = seed
        self._served = served
        self._keys = keys

    def expand(self, value: Json, place: Keys) -> Json:
        if isinstance(value, list):
            return [self.expand(item, (*place, index)) for index, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        if any(key.startswith("$") for key in value):
            return self._generated(value, place)
        return {key: self.expand(item, (*place, key)) for key, item in value.items()}

    def _generated(self, value: dict[str, Any], place: Keys) -> Json:
        keys = (*self._keys, *place)
        kind = next((kind for kind in _GENERATED if kind in value), None)
        unknown = [key for key in value if kind is None or key not in _GENERATED[kind]]
        if kind is None or unknown:
            known = _GENERATED if kind is None else _GENERATED[kind]
            raise Fault(f"{unknown[0]!r} makes no value here", keys, hint=nearest(unknown[0], known))
        if kind == "$ids":
            return self._ids(value, place)
        text = value[kind]
        if not isinstance(text, str):
            raise Fault("expected a text", (*keys, kind))
        if kind == "$json":
            return parsed(text, (*keys, kind))
        times = _count(value.get("$times"), (*keys, "$times"), MAX_TEXT // max(1, len(text)))
        return text * times

    def _ids(self, value: dict[str, Any], place: Keys) -> list[int]:
        keys = (*self._keys, *place)
        count = _count(value["$ids"], (*keys, "$ids"), MAX_TOKENS)
        seed, stream = self._seed, dotted(place)
        if "$seed" in value:
            seed, stream = f"seed:{value['$seed']}", "prompt"
        return generated(seed, stream, 0, count, self._served.end_id, self._served.first_id)


def _count(value: Json, keys: Keys, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise Fault(f"expected a whole number from 1 to {most}, got {value!r}", keys)
    return value

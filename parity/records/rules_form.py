"""Rules about the front matter's form: they read plain values, before anything is known to be a record."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import get_args

import msgspec

from parity.errors import RecordError
from parity.records.parse import Raw, to_record
from parity.records.record import (
    Anchor,
    Decision,
    Diverging,
    Exemplar,
    Front,
    Kind,
    OracleRef,
    Stamp,
    State,
    Whose,
)
from parity.records.rules import Fault, Faults, FormRule
from parity.records.yamltext import Keys
from parity.scenario import Json

_PARTS: dict[str, type[msgspec.Struct]] = {
    "oracle": OracleRef,
    "proposed": Stamp,
    "decided": Stamp,
    "exemplars": Exemplar,
    "diverging": Diverging,
    "anchors": Anchor,
}
_OF_A_FINDING = ("decision", "fingerprints", "attribution", "exemplars")
_ONLY_OF_A_FINDING = (*_OF_A_FINDING, "policy", "diverging")


def unknown_key(raw: Raw) -> Faults:
    """Every key is one that a record knows."""
    for keys, value, kind in _objects(raw):
        known = [field.encode_name for field in msgspec.structs.fields(kind)]
        for key in value:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                meant = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"
                yield Fault(raw.line(*keys, key), f"unknown key {key!r}{meant}")


def missing_key(raw: Raw) -> Faults:
    """Every required key is there; which they are depends on the record's kind."""
    for keys, value, kind in _objects(raw):
        required = [field.encode_name for field in msgspec.structs.fields(kind) if field.required]
        if not keys:
            required += ["scenario"] if raw.values.get("kind") == "falsified" else _OF_A_FINDING
        for key in required:
            if key not in value:
                yield Fault(raw.line(*keys), f"key {key!r} is missing")


def bad_kind(raw: Raw) -> Faults:
    """`kind` is finding (the default) or falsified."""
    yield from _choice(raw, "kind", get_args(Kind))


def bad_state(raw: Raw) -> Faults:
    yield from _choice(raw, "state", get_args(State))


def bad_decision(raw: Raw) -> Faults:
    yield from _choice(raw, "decision", get_args(Decision))


def bad_attribution(raw: Raw) -> Faults:
    """A record decides what is mirrored, ours, theirs or merely differs; `harness` is never coverable."""
    yield from _choice(raw, "attribution", get_args(Whose))
    entries = raw.values.get("diverging")
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        if isinstance(entry, dict) and entry.get("attribution") not in (*get_args(Whose), None):
            line = raw.line("diverging", index, "attribution")
            yield Fault(line, f"attribution is one of {', '.join(get_args(Whose))}")


def falsified_with_finding(raw: Raw) -> Faults:
    """A falsified hypothesis has no finding, and so none of a finding's keys; a finding has no `scenario`."""
    is_falsified = raw.values.get("kind") == "falsified"
    for key in _ONLY_OF_A_FINDING if is_falsified else ("scenario",):
        if raw.values.get(key):
            who = "a falsified hypothesis" if is_falsified else "the record of a finding"
            yield Fault(raw.line(key), f"{who} has no {key!r}")


def wrong_type(raw: Raw) -> Faults:
    """Every value has its type: text, a date, a list, the fields of an entry."""
    try:
        to_record(raw)
    except RecordError as error:
        where = f"{error.path}:{error.line}: "
        yield Fault(error.line or 1, str(error).removeprefix(where), str(error.path))


FORM_RULES: tuple[FormRule, ...] = (
    unknown_key,
    missing_key,
    bad_kind,
    bad_state,
    bad_decision,
    bad_attribution,
    falsified_with_finding,
)


def _choice(raw: Raw, key: str, allowed: tuple[str, ...]) -> Faults:
    value = raw.values.get(key)
    if value is not None and value not in allowed:
        yield Fault(raw.line(key), f"{key} {value!r} is none of {', '.join(allowed)}")


def _objects(raw: Raw) -> Iterator[tuple[Keys, dict[str, Json], type[msgspec.Struct]]]:
    """Every object of the front matter that has fixed keys, with the type that it has to be."""
    yield (), raw.values, Front
    for key, kind in _PARTS.items():
        value = raw.values.get(key)
        if isinstance(value, dict):
            yield (key,), value, kind
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, dict):
                    yield (key, index), item, kind

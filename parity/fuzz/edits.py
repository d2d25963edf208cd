"""Changes to a document as pure functions: each takes one and gives another, its references repaired."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import NODEFAULT

from parity.defaults import ConfigForm, ServerConfigForm
from parity.document import Key, Keys
from parity.form import AbortForm, RequestForm, ResetForm, ScenarioForm
from parity.fuzz.document import Document, case_from
from parity.scenario import Json, Scenario
from parity.serve_form import ServeForm

_ORDER = ("title", "level", "why", "config", "waive", "outcomes", "full", "max_steps")
_OF = ("of", "output_of")


def at(document: Document, keys: Keys) -> Json:
    """The value at `keys`. Raises LookupError where there is none."""
    value: Json = document
    for key in keys:
        value = value[key]
    return value


def put(value: Json, keys: Keys, new: Json) -> Any:
    """`value` with `new` at `keys`; a key that is missing in a map is added."""
    if not keys:
        return new
    head, rest = keys[0], keys[1:]
    if isinstance(value, dict):
        return {**value, head: put(value.get(head), rest, new)}
    return [put(item, rest, new) if index == head else item for index, item in enumerate(value)]


def drop(value: Json, keys: Keys) -> Any:
    """`value` without what stands at `keys`, an entry of a map or an item of a list."""
    head, rest = keys[0], keys[1:]
    if rest:
        return put(value, (head,), drop(value[head], rest))
    if isinstance(value, dict):
        return {key: item for key, item in value.items() if key != head}
    return [item for index, item in enumerate(value) if index != head]


def numbers(value: Json, keys: Keys = ()) -> Iterator[tuple[Keys, int]]:
    """Every whole number of the value, with its place, in the value's own order."""
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        yield keys, value
    for key, item in _items(value):
        yield from numbers(item, (*keys, key))


def texts(value: Json, keys: Keys = ()) -> Iterator[tuple[Keys, str]]:
    """Every text of the value, with its place."""
    if isinstance(value, str):
        yield keys, value
    for key, item in _items(value):
        yield from texts(item, (*keys, key))


def containers(value: Json, keys: Keys = ()) -> Iterator[tuple[Keys, dict[str, Json] | list[Json]]]:
    """Every map and list below the value, outer ones first, with its place."""
    if isinstance(value, (dict, list)):
        yield keys, value
    for key, item in _items(value):
        yield from containers(item, (*keys, key))


def _items(value: Json) -> list[tuple[Key, Json]]:
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list) else []


def tidied(document: Document) -> Document:
    """The same question in fewer words: no key that says what is the default anyway, keys in the suite's order."""
    is_served = document.get("level") == "serve"
    form = ServeForm if is_served else ScenarioForm
    whole = _spare(document, form)
    whole["config"] = _spare(whole["config"], ServerConfigForm if is_served else ConfigForm)
    for key, entries in (("requests", RequestForm), ("aborts", AbortForm), ("resets", ResetForm)):
        if isinstance(whole.get(key), list):
            whole[key] = [_spare(entry, entries) for entry in whole[key]]
    for request in whole.get("requests", []):
        if isinstance(request["prompt"], list):
            request["prompt"] = joined(request["prompt"])
    head = {key: whole.pop(key) for key in _ORDER if key in whole}
    return head | whole


def _spare(value: Mapping[str, Json], form: type[msgspec.Struct]) -> dict[str, Json]:
    """The map without what is the form's default, its keys in the form's order."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(form)}
    kept: dict[str, Json] = {}
    for name, field in fields.items():
        default = field.default if field.default_factory is NODEFAULT else field.default_factory()
        is_default = name in value and type(value[name]) is type(default) and value[name] == default
        if name in value and not is_default:
            kept[name] = value[name]
    return kept | {name: item for name, item in value.items() if name not in fields}


def joined(parts: list[Json]) -> Json:
    """A prompt's parts with neighbours that generate made one, or a plain length where nothing else is left."""
    made: list[Json] = []
    for part in parts:
        last = made[-1] if made else None
        if isinstance(part, dict) and "new" in part and isinstance(last, dict) and "new" in last:
            made[-1] = {"new": last["new"] + part["new"]}
        else:
            made.append(part)
    only = made[0] if len(made) == 1 else None
    return only["new"] if isinstance(only, dict) and "new" in only else made


def lengths(document: Document) -> dict[str, tuple[int, int]]:
    """Of each request the number of ids of its prompt and of its whole output. Raises Fault."""
    scenario = case_from(document).scenario
    if not isinstance(scenario, Scenario) or scenario.timeline is None:
        return {}
    return {request.id: (len(request.prompt), len(request.output)) for request in scenario.timeline.requests}


def without_requests(document: Document, ids: Collection[str], *, inherit: bool = False) -> Document:
    """The document without these requests and their aborts; prompts that were made of theirs are made of new ids.

    `inherit` keeps what such prompts have in common: where several begin with the prompt of one that goes, the
    first of them generates it and the others refer to the first.
    """
    known = lengths(document)
    left = [request for request in document["requests"] if request["id"] not in ids]
    heirs = _heirs(left, ids) if inherit else {}
    requests = []
    for request in left:
        if isinstance(request["prompt"], list):
            parts = [_repaired(part, ids, known, heirs, request["id"]) for part in request["prompt"]]
            request = {**request, "prompt": joined(parts)}
        requests.append(request)
    changed = {**document, "requests": requests}
    aborts = [abort for abort in document.get("aborts", []) if abort["id"] not in ids]
    return {**changed, "aborts": aborts} if aborts else drop(changed, ("aborts",))


def _heirs(requests: list[dict[str, Json]], ids: Collection[str]) -> dict[str, str]:
    """For each id that goes, the first request whose whole prompt begins with all of its."""
    heirs: dict[str, str] = {}
    for request in requests:
        first = request["prompt"][0] if isinstance(request["prompt"], list) else None
        if isinstance(first, dict) and first.get("of") in ids and "take" not in first:
            heirs.setdefault(first["of"], request["id"])
    return heirs


def _repaired(
    part: Json,
    ids: Collection[str],
    known: Mapping[str, tuple[int, int]],
    heirs: Mapping[str, str],
    mine: str,
) -> Json:
    key = next((key for key in _OF if isinstance(part, dict) and part.get(key) in ids), None)
    if key is None:
        return part
    gone = part[key]
    length = part.get("take", known[gone][0 if key == "of" else 1])
    if key == "of" and heirs.get(gone, mine) != mine:
        return {"of": heirs[gone], "take": length}
    return {"new": length}


def renamed(document: Document, names: Mapping[str, str]) -> Document:
    """The document with its requests called otherwise, wherever they are named."""
    requests = []
    for request in document.get("requests", []):
        prompt = request["prompt"]
        if isinstance(prompt, list):
            prompt = [_renamed_part(part, names) for part in prompt]
        requests.append({**request, "id": names[request["id"]], "prompt": prompt})
    changed = {**document, "requests": requests}
    if "aborts" in document:
        changed["aborts"] = [{**abort, "id": names[abort["id"]]} for abort in document["aborts"]]
    return changed


def _renamed_part(part: Json, names: Mapping[str, str]) -> Json:
    if not isinstance(part, dict):
        return part
    return {key: names[item] if key in _OF else item for key, item in part.items()}


def without_moment(document: Document, moment: int, steps: int) -> Document:
    """The document with everything that happens in step `moment` or later that many steps earlier."""
    changed = dict(document)
    for key in ("requests", "aborts", "resets"):
        if key in document:
            changed[key] = [
                {**entry, "at": entry["at"] - steps} if entry.get("at", 0) >= moment else entry
                for entry in document[key]
            ]
    return changed


def gaps(document: Document) -> list[tuple[int, int]]:
    """Each moment at which something happens, with the number of steps since the one before (or since step 0)."""
    moments = {
        entry.get("at", 0) for key in ("requests", "aborts", "resets") for entry in document.get(key, [])
    }
    return [(later, later - before) for before, later in pairwise(sorted({0, *moments}))]

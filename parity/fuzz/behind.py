"""What a known difference may hide: the same scenario once more with that difference's consequence undone.

Everything after the first difference may follow from it, so it is not compared. Undone it is in one of these ways:

- the subject runs under a policy: it is played at the pin's own choice, where the whole must agree;
- the sides planned another capacity: both are given the oracle's as it came out, in place of what they would fit;
- an exchange asks for what the engine refuses: the script without those keys in its body;
- a request is at the place of the difference: the scenario without that request, and without those that took its prompt;
- no request is: without the aborts and resets of that step, or, where it has none, without its youngest arrival.

What is undone may show the known difference again, elsewhere; it is undone again, up to `DEPTH` times.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from parity.diff import Key, split
from parity.document import Fault
from parity.finding import Finding
from parity.fuzz.document import Document
from parity.fuzz.drawing.serve_fields import GROUPS, REFUSED_KEYS
from parity.fuzz.examine import Examined
from parity.observation import Observation, PlanOk, Schedule, Step

DEPTH = 3


def looked_behind(
    document: Document, finding: Finding, seen: Examined, look: Callable[[Document], Examined]
) -> tuple[Document, Examined] | None:
    """What is left with this difference undone, and its play; null where it cannot be undone, or the rest be no scenario."""
    rest = undone(document, finding, seen)
    if rest is None:
        return None
    try:
        return rest, look(rest)
    except Fault:
        return None


def undone(document: Document, finding: Finding, seen: Examined) -> Document | None:
    """The document without what this difference is about; null where it cannot be undone."""
    keys = split(finding.at)
    if document.get("level") == "serve":
        return _without_refused(document, keys) or _without_exchange(document, keys)
    if document.get("level") == "plan" or keys[:1] == ("plan",):
        return _with_capacity(document, seen.oracle)
    oracle, subject = seen.oracle, seen.subject
    if not isinstance(oracle, Schedule) or not isinstance(subject, Schedule):
        return None
    if keys[:1] == ("end",):
        return _without_request(document, _other_output(oracle, subject))
    return _without_request(document, _at_place(keys, oracle, subject)) or _without_events(document, keys)


def is_explained(document: Document, finding: Finding) -> bool:
    """Whether the exchange at the place of a difference asks for anything that the engine refuses, or for another door."""
    exchange = _exchange_at(document, split(finding.at))
    if exchange is None or exchange.get("path") not in GROUPS:
        return True
    body = exchange.get("body")
    return not isinstance(body, dict) or not REFUSED_KEYS.isdisjoint(body)


def without(document: Document, gone: str) -> Document | None:
    """The timeline without this request, its aborts, and the requests that took its prompt; null for the last one."""
    names = {gone}
    requests = document["requests"]
    while more := {request["id"] for request in requests if _takes(request, names)} - names:
        names |= more
    left = [request for request in requests if request["id"] not in names]
    if not left or len(left) == len(requests):
        return None
    changed = copy.deepcopy(document)
    changed["requests"] = copy.deepcopy(left)
    aborts = [abort for abort in changed.get("aborts", []) if abort["id"] not in names]
    return _with_list(changed, "aborts", aborts)


def _takes(request: dict[str, Any], names: set[str]) -> bool:
    prompt = request["prompt"]
    parts = prompt if isinstance(prompt, list) else []
    return any(isinstance(part, dict) and {part.get("of"), part.get("output_of")} & names for part in parts)


def _with_capacity(document: Document, oracle: Observation | None) -> Document | None:
    plan = oracle.plan if isinstance(oracle, Schedule) else oracle
    if not isinstance(plan, PlanOk):
        return None
    config = {**document["config"], "num_blocks": plan.num_blocks, "max_model_len": plan.max_model_len}
    return None if config == document["config"] else {**copy.deepcopy(document), "config": config}


def _without_request(document: Document, request: str | None) -> Document | None:
    return None if request is None else without(document, request)


def _at_place(keys: tuple[Key, ...], oracle: Schedule, subject: Schedule) -> str | None:
    """The request at the place of a difference within a step: the entry there, or what differs of a whole list."""
    if len(keys) < 3 or keys[0] != "steps" or not isinstance(keys[1], int):
        return None
    for side, other in ((oracle, subject), (subject, oracle)):
        step = _step(side, keys[1])
        entries = getattr(step, str(keys[2]), None)
        if not isinstance(entries, list):
            continue
        if len(keys) > 3 and isinstance(keys[3], int) and keys[3] < len(entries):
            return _name(entries[keys[3]])
        theirs = getattr(_step(other, keys[1]), str(keys[2]), None) or []
        for entry in entries:
            if entry not in theirs and _name(entry) is not None:
                return _name(entry)
    return None


def _step(observation: Schedule, index: int) -> Step | None:
    return observation.steps[index] if index < len(observation.steps) else None


def _name(entry: object) -> str | None:
    name = entry[0] if isinstance(entry, (tuple, list)) and entry else entry
    return name if isinstance(name, str) else None


def _other_output(oracle: Schedule, subject: Schedule) -> str | None:
    pairs = zip(oracle.end.outputs, subject.end.outputs, strict=False)
    return next((left[0] for left, right in pairs if tuple(left) != tuple(right)), None)


def _without_events(document: Document, keys: tuple[Key, ...]) -> Document | None:
    """Without the aborts and resets of the step, else without the request that arrived last by then."""
    if len(keys) < 2 or not isinstance(keys[1], int):
        return None
    at = keys[1]
    changed = copy.deepcopy(document)
    for key in ("aborts", "resets"):
        changed = _with_list(changed, key, [event for event in changed.get(key, []) if event["at"] != at])
    if changed != document:
        return changed
    arrived = [request for request in document["requests"] if request.get("at", 0) <= at]
    if not arrived:
        return None
    return without(document, max(arrived, key=lambda request: request.get("at", 0))["id"])


def _with_list(document: Document, key: str, entries: list[Any]) -> Document:
    """The document with this list, without the key where the list is empty. Changes it in place."""
    if entries:
        document[key] = entries
    else:
        document.pop(key, None)
    return document


def _exchange_at(document: Document, keys: tuple[Key, ...]) -> dict[str, Any] | None:
    """The exchange at the place of a difference, as the document has it."""
    if len(keys) < 2 or keys[0] != "exchanges" or not isinstance(keys[1], int):
        return None
    return list(_exchanges(document))[keys[1]]


def _without_refused(document: Document, keys: tuple[Key, ...]) -> Document | None:
    """The script with the refused keys taken out of that exchange's body; null where it has none."""
    changed = copy.deepcopy(document)
    exchange = _exchange_at(changed, keys)
    body = None if exchange is None else exchange.get("body")
    if not isinstance(body, dict) or REFUSED_KEYS.isdisjoint(body):
        return None
    for key in REFUSED_KEYS & body.keys():
        del body[key]
    return changed


def _without_exchange(document: Document, keys: tuple[Key, ...]) -> Document | None:
    """The script without the exchange at the place of the difference, and without what waits for it or leaves it."""
    exchange = _exchange_at(document, keys)
    if exchange is None:
        return None
    gone = exchange["id"]
    script: list[Any] = []
    for action in copy.deepcopy(document["script"]):
        if "at_once" in action:
            action["at_once"] = [exchange for exchange in action["at_once"] if exchange["id"] != gone]
            if action["at_once"]:
                script.append(action)
        elif gone not in (_named(action, "send"), _named(action, "open"), _named(action, "await")) and (
            action.get("leave") != gone
        ):
            script.append(action)
    changed = {**copy.deepcopy(document), "script": script}
    return changed if any(_exchanges(changed)) else None


def _exchanges(document: Document) -> Iterator[dict[str, Any]]:
    for action in document["script"]:
        for key in ("send", "open"):
            if key in action:
                yield action[key]
        yield from action.get("at_once", ())


def _named(action: dict[str, Any], key: str) -> str | None:
    found = action.get(key)
    return found["id"] if isinstance(found, dict) else None

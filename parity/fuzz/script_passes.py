"""The ways in which a served script gets smaller. Its `config` is left alone: every other one costs a start of both servers.

Waits are left alone too, as a shorter one makes a script that sometimes holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from parity.document import Keys
from parity.fuzz.attempts import Search
from parity.fuzz.document import Document
from parity.fuzz.edits import at, containers, drop, numbers, put, texts
from parity.fuzz.lowering import lower
from parity.fuzz.passes import Pass, chunks
from parity.scenario import Json

_WAITS = ("within", "pause", "deadline")
_STARTS = ("send", "open")
_NEEDED = ("id", "path", "model")


def script_passes() -> tuple[Pass, ...]:
    return (
        fewer_actions,
        fewer_together,
        waited_for,
        fewer_keys,
        fewer_items,
        smaller_numbers,
        shorter_texts,
    )


def fewer_actions(search: Search) -> None:
    for stretch in chunks(len(search.best["script"])):
        script: list[dict[str, Json]] = search.best["script"]
        if stretch.stop <= len(script):
            _attempt(search, script[: stretch.start] + script[stretch.stop :])


def fewer_together(search: Search) -> None:
    """Fewer exchanges at once; one alone is sent."""
    for index in range(len(search.best["script"])):
        for stretch in chunks(len(search.best["script"][index].get("at_once", []))):
            together = search.best["script"][index].get("at_once", [])
            rest = together[: stretch.start] + together[stretch.stop :]
            if rest and stretch.stop <= len(together):
                action = {"at_once": rest} if len(rest) > 1 else {"send": rest[0]}
                search.attempt(put(search.best, ("script", index), action))


def waited_for(search: Search) -> None:
    """An exchange that is opened and awaited is sent, which is one action."""
    for index in range(len(search.best["script"]) - 1, -1, -1):
        script: list[dict[str, Any]] = search.best["script"]
        if index < len(script) and "open" in script[index]:
            id_ = script[index]["open"]["id"]
            rest = [action for action in script[index + 1 :] if _named(action) != id_]
            _attempt(search, [*script[:index], {"send": script[index]["open"]}, *rest])


def fewer_keys(search: Search) -> None:
    """Keys of the scenario, of exchanges and of bodies, outer ones first."""
    for key in [key for key in search.best if key not in ("level", "config", "script")]:
        search.attempt(drop(search.best, (key,)))
    for keys, value in _below(search.best):
        for key in value if isinstance(value, dict) else ():
            if key not in _NEEDED and key not in _WAITS and _has(search.best, (*keys, key)):
                search.attempt(drop(search.best, (*keys, key)))


def fewer_items(search: Search) -> None:
    """Items of lists within bodies."""
    for keys, value in _below(search.best):
        if not isinstance(value, list) or keys[-1] == "at_once":
            continue
        for stretch in chunks(len(value)):
            now = at(search.best, keys) if _has(search.best, keys) else None
            if isinstance(now, list) and stretch.stop <= len(now):
                search.attempt(put(search.best, keys, now[: stretch.start] + now[stretch.stop :]))


def smaller_numbers(search: Search) -> None:
    for keys, _ in list(numbers(search.best["script"], ("script",))):
        if not any(wait in keys for wait in _WAITS) and _has(search.best, keys):
            lower(search, keys)


def shorter_texts(search: Search) -> None:
    """Texts of bodies and headers without the stretches that do not matter."""
    for keys, text in list(texts(search.best["script"], ("script",))):
        if keys[-1] in _NEEDED or len(keys) < 4 or text in ("first", "end"):
            continue
        for stretch in chunks(len(text)):
            now = at(search.best, keys)
            if stretch.stop <= len(now):
                search.attempt(put(search.best, keys, now[: stretch.start] + now[stretch.stop :]))


def _attempt(search: Search, script: list[dict[str, Json]]) -> bool:
    """The script without what speaks of an exchange that it does not open, or of an end that nothing brings about."""
    opened: set[str] = set()
    is_ended = False
    kept = []
    for action in script:
        if "open" in action:
            opened.add(action["open"]["id"])
        is_ended |= "signal" in action
        name = _named(action)
        if (name is None or name in opened) and (is_ended or "exit" not in action):
            kept.append(action)
    return search.attempt({**search.best, "script": kept})


def _named(action: dict[str, Json]) -> str | None:
    """The opened exchange that an action speaks of."""
    name: str | None = action["await"]["id"] if "await" in action else action.get("leave")
    return name


def _below(document: Document) -> Iterator[tuple[Keys, dict[str, Json] | list[Json]]]:
    """Maps and lists within the exchanges, those of a script itself not."""
    for keys, value in list(containers(document["script"], ("script",))):
        if any(key in keys for key in (*_STARTS, "at_once")):
            yield keys, value


def _has(document: Document, keys: Keys) -> bool:
    try:
        at(document, keys)
    except (LookupError, TypeError):
        return False
    return True

"""Numbers made smaller, one at a time and together: which numbers hang together is what keeps a finding alive.

A move names places and what is taken off each of them a step; the search takes as many steps as it can.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

from parity.defaults import config_defaults
from parity.document import Keys
from parity.fuzz.attempts import Search
from parity.fuzz.document import Document
from parity.fuzz.edits import at, numbers, put

Move = tuple[tuple[Keys, int], ...]

MAX_PLACES = 14  # above it pairs are not tried: each pair costs an attempt
_IDS = ("output", "stop_token_ids", "eos_token_id", "seed", "stamp")  # names and ranks, and no amounts
_TOKENS = ("max_num_batched_tokens", "long_prefill_token_threshold", "max_model_len")


def lower(search: Search, keys: Keys) -> None:
    """The number there as near to 0 as it goes."""
    value = at(search.best, keys)
    _most(search, ((keys, 1 if value > 0 else -1),), abs(value))


def lower_together(search: Search, move: Move) -> None:
    """All the numbers of the move, if one step of it keeps what must be kept."""
    if not search.attempt(moved(search.best, move, 1)):
        return
    steps = [at(search.best, keys) // fall for keys, fall in move if fall > 0]
    _most(search, move, min(steps, default=0))


def moved(document: Document, move: Move, steps: int) -> Document:
    """The document after that many steps of the move."""
    changed: Any = document
    for keys, fall in move:
        changed = put(changed, keys, at(changed, keys) - fall * steps)
    whole: Document = changed
    return whole


def _most(search: Search, move: Move, most: int) -> None:
    """As many steps as keep, up to `most`: the most itself, the last before it, else by halves."""
    start = search.best
    if most < 1 or search.attempt(moved(start, move, most)):
        return
    if most > 1 and search.attempt(moved(start, move, most - 1)):
        return
    kept, lost = 0, most - 1
    while lost - kept > 1:
        middle = (kept + lost) // 2
        if search.attempt(moved(start, move, middle)):
            kept = middle
        else:
            lost = middle


def fewer_tokens(search: Search) -> None:
    """Fewer tokens to generate, and with that fewer steps; a longer prompt may take their place."""
    count = len(search.best["requests"])
    places: list[Keys] = [("requests", index, "max_tokens") for index in range(count)]
    for keys in places:
        lower(search, keys)
    if count > 1:
        lower_together(search, tuple((keys, 1) for keys in places))
    for index, keys in enumerate(places):
        if isinstance(at(search.best, ("requests", index, "prompt")), int):
            move: Move = ((keys, 1), (("requests", index, "prompt"), -1))
            _most(search, move, at(search.best, keys) - 1)
    arrivals: list[Keys] = [
        ("requests", index, "at") for index in range(count) if "at" in search.best["requests"][index]
    ]
    for arrival in arrivals:
        for keys in places:
            if arrival[1] != keys[1]:
                lower_together(search, ((arrival, 1), (keys, 1)))


def smaller_numbers(search: Search) -> None:
    """Every amount by itself, then those that hang together."""
    for keys, _ in list(numbers(search.best)):
        if _is_there(search, keys) and not _is_id(keys):
            lower(search, keys)
    smaller_blocks(search)
    for move in relations(search.best):
        if all(_is_there(search, keys) for keys, _ in move):
            lower_together(search, move)
    for keys, value in _fractions(search.best):
        for digits in range(3):
            if search.attempt(put(search.best, keys, round(value, digits))):
                break


def relations(document: Document) -> list[Move]:
    """Numbers that may only fall together: a pool and what fills it, a budget and what uses it up, lengths side by side."""
    config: dict[str, Any] = document["config"]
    size = config.get("block_size", config_defaults()["block_size"])
    amounts = [keys for keys, _ in numbers(document) if not _is_id(keys)]
    prompts = [keys for keys in amounts if "prompt" in keys]
    outputs = [keys for keys in amounts if keys[-1] == "max_tokens"]
    bounds: list[Keys] = [("config", name) for name in _TOKENS if isinstance(config.get(name), int)]
    groups: list[tuple[Keys, ...]] = [(keys,) for keys in (*prompts, *outputs, *bounds)]
    groups += [tuple(together) for together in (prompts, outputs, prompts + outputs) if len(together) > 1]
    moves: list[Move] = [tuple((keys, 1) for keys in group) for group in groups if len(group) > 1]
    if isinstance(config.get("num_blocks"), int):
        pool: Keys = ("config", "num_blocks")
        moves += [((pool, 1), *((keys, size) for keys in group)) for group in groups]
    if len(amounts) <= MAX_PLACES:
        moves += [((one, 1), (other, 1)) for one, other in combinations(amounts, 2)]
    return list(dict.fromkeys(moves))


def smaller_blocks(search: Search) -> None:
    """A smaller block size, with all lengths in proportion."""
    config: dict[str, Any] = search.best["config"]
    size = config.get("block_size")
    for smaller in (1, 2, 4, 8):
        if not isinstance(size, int) or smaller >= size:
            return
        for add in (0, size - 1):
            scaled = _scaled(search.best, smaller, size, add)
            if search.attempt(put(scaled, ("config", "block_size"), smaller)):
                return


def _scaled(document: Document, smaller: int, size: int, add: int) -> Document:
    changed: Any = document
    for keys, value in numbers(document):
        is_length = "prompt" in keys or keys[-1] in (*_TOKENS, "max_tokens", "min_tokens")
        if is_length and not _is_id(keys):
            changed = put(changed, keys, max(min(value, 1), (value * smaller + add) // size))
    whole: Document = changed
    return whole


def renumbered(document: Document, key: str) -> Document:
    """The document with the requests' numbers under `key` as small as they can be, their order and equality kept."""
    values = sorted({request[key] for request in document["requests"] if key in request})
    rank = {value: place for place, value in enumerate(values)}
    requests = [
        {**request, key: rank[request[key]]} if key in request else request
        for request in document["requests"]
    ]
    return {**document, "requests": requests}


def plain_ids(document: Document) -> Document:
    """The document with the token ids that it spells out as small as they can be; equal ones stay equal."""
    found: dict[int, int] = {}
    changed: Any = document
    for keys, value in numbers({"requests": document.get("requests", [])}):
        is_token = any(key in keys for key in _IDS[:3]) or ("prompt" in keys and isinstance(keys[-1], int))
        if is_token and keys[-1] != "prompt":
            changed = put(changed, keys, found.setdefault(value, len(found)))
    whole: Document = changed
    return whole


def _is_id(keys: Keys) -> bool:
    """Whether the number names something (a token of a prompt included) and is no amount."""
    return any(key in keys for key in _IDS) or (len(keys) > 3 and isinstance(keys[-1], int))


def _is_there(search: Search, keys: Keys) -> bool:
    try:
        value = at(search.best, keys)
    except (LookupError, TypeError):
        return False
    return isinstance(value, int) and not isinstance(value, bool)


def _fractions(document: Document) -> list[tuple[Keys, float]]:
    config: dict[str, Any] = document["config"]
    return [(("config", key), value) for key, value in config.items() if isinstance(value, float)]

"""The ways in which a plan or a timeline gets smaller, in the order in which people like to see it.

Fewer requests, aborts and resets; then fewer steps; then keys back to their defaults; then prompts that are plain
lengths; then smaller numbers. A pass tries candidates until none is both smaller and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from parity.defaults import config_defaults, smallest_block_bytes
from parity.document import Keys
from parity.fuzz.attempts import Search
from parity.fuzz.document import Document
from parity.fuzz.edits import (
    at,
    drop,
    gaps,
    joined,
    lengths,
    put,
    tidied,
    without_moment,
    without_requests,
)
from parity.fuzz.lowering import fewer_tokens, lower, plain_ids, renumbered, smaller_numbers
from parity.models import model, models
from parity.scenario import Json

Pass = Callable[[Search], None]

_POOL = ("num_blocks", "kv_cache_memory_bytes")


def passes(level: str) -> tuple[Pass, ...]:
    """The passes of level plan or schedule."""
    if level == "plan":
        return (fewer_keys, simpler_model, pool_in_blocks, smaller_numbers)
    return (
        fewer_requests,
        fewer_events,
        earlier,
        fewer_tokens,
        fewer_keys,
        simpler_model,
        plainer_prompts,
        plainer_ids,
        pool_in_blocks,
        smaller_numbers,
    )


def pool_in_blocks(search: Search) -> None:
    """The pool as a number of blocks in the place of bytes."""
    config: dict[str, Any] = search.best["config"]
    pool = config.get("kv_cache_memory_bytes")
    if pool is None or config.get("num_blocks") is not None:
        return
    whole = {**config_defaults(), **config}
    halves = smallest_block_bytes(model(whole["model"]), whole["block_size"])
    blocks = pool // (halves * (2 if whole["dtype"] == "float32" else 1))
    without = drop(search.best, ("config", "kv_cache_memory_bytes"))
    search.attempt(put(without, ("config", "num_blocks"), blocks))


def chunks(length: int) -> Iterator[range]:
    """Stretches of a list, long ones first and later ones first: halves, quarters, … single items."""
    size = length
    while size >= 1:
        for end in range(length, 0, -size):
            yield range(max(0, end - size), end)
        size //= 2


def shorter_list(search: Search, keys: Keys, keep: int = 0) -> None:
    """The list there without as many of its items as can go; `keep` is the least that it must have."""
    for stretch in chunks(len(at(search.best, keys))):
        items: list[Json] = at(search.best, keys)
        if stretch.stop <= len(items) and len(items) - len(stretch) >= keep:
            rest = items[: stretch.start] + items[stretch.stop :]
            search.attempt(put(search.best, keys, rest) if rest else drop(search.best, keys))
        if not _is_list(search.best, keys):
            return


def fewer_requests(search: Search) -> None:
    for stretch in chunks(len(search.best["requests"])):
        requests: list[dict[str, Any]] = search.best["requests"]
        if stretch.stop > len(requests) or len(stretch) == len(requests):
            continue
        ids = {request["id"] for request in requests[stretch.start : stretch.stop]}
        any(search.attempt(tidied(left)) for left in _without(search.best, ids))


def _without(document: Document, ids: set[str]) -> Iterator[Document]:
    """Ways to do without these requests: just so, with what they share kept, or with what they took made up for."""
    plain = without_requests(document, ids)
    yield plain
    yield without_requests(document, ids, inherit=True)
    gone = [index for index, request in enumerate(document["requests"]) if request["id"] in ids]
    known = lengths(document)
    prompt = sum(known[id_][0] for id_ in ids)
    whole = sum(sum(known[id_]) for id_ in ids)
    size = document["config"].get("block_size", config_defaults()["block_size"])
    for key, less in (
        ("max_num_seqs", len(ids)),
        ("num_blocks", -(-prompt // size)),
        ("num_blocks", -(-whole // size)),
        ("max_num_batched_tokens", prompt),
    ):
        if isinstance(document["config"].get(key), int):
            yield put(plain, ("config", key), document["config"][key] - less)
    neighbour = max(0, gone[0] - 1)
    if isinstance(plain["requests"][neighbour]["prompt"], int):
        longer = plain["requests"][neighbour]["prompt"] + prompt
        yield put(plain, ("requests", neighbour, "prompt"), longer)


def fewer_events(search: Search) -> None:
    for key in ("aborts", "resets"):
        if _is_list(search.best, (key,)):
            shorter_list(search, (key,))


def earlier(search: Search) -> None:
    """Everything as soon as it can be: whole stretches of time taken out, then each entry by itself."""
    for moment, steps in reversed(gaps(search.best)):
        for less in dict.fromkeys((steps, steps - 1, steps // 2, 1)):
            if less > 0 and search.attempt(without_moment(search.best, moment, less)):
                break
    for key in ("requests", "aborts", "resets"):
        for index in range(len(search.best.get(key, []))):
            if search.best[key][index].get("at"):
                lower(search, (key, index, "at"))
    if (once := tidied(search.best)) != search.best:
        search.attempt(once)


def fewer_keys(search: Search) -> None:
    """Keys back to their defaults, which means left out. What sizes the pool stays: the default's 1 GiB is slow to play."""
    for key in [key for key in search.best if key not in ("level", "config", "requests", "aborts", "resets")]:
        search.attempt(drop(search.best, (key,)))
    config: dict[str, Json] = search.best["config"]
    needed = {"model", next((key for key in _POOL if key in config), "model")}
    optional = [key for key in config if key not in needed]
    least = {key: value for key, value in config.items() if key in needed}
    if optional and not search.attempt({**search.best, "config": least}):
        for key in optional:
            search.attempt(drop(search.best, ("config", key)))
    for key, required in (
        ("requests", ("id", "prompt", "max_tokens")),
        ("aborts", ("id", "at")),
        ("resets", ("at",)),
    ):
        _fewer_of_entries(search, key, required)


def _fewer_of_entries(search: Search, key: str, needed: Sequence[str]) -> None:
    """Each optional key of all entries at once, else of one entry after the other."""
    entries: list[dict[str, Json]] = search.best.get(key, [])
    for name in dict.fromkeys(name for entry in entries for name in entry if name not in needed):
        without = [
            {other: item for other, item in entry.items() if other != name} for entry in search.best[key]
        ]
        if search.attempt({**search.best, key: without}):
            continue
        for index, entry in enumerate(search.best[key]):
            if name in entry:
                search.attempt(drop(search.best, (key, index, name)))


def simpler_model(search: Search) -> None:
    for name in sorted(models(), key=lambda name: (models()[name].num_layers, name != "tiny-opt", name)):
        if search.attempt(put(search.best, ("config", "model"), name)):
            return


def plainer_prompts(search: Search) -> None:
    """Prompts of parts become lengths; where they cannot, fewer parts, and parts that refer to nothing."""
    for index, request in enumerate(search.best["requests"]):
        keys: Keys = ("requests", index, "prompt")
        if not isinstance(request["prompt"], list):
            continue
        length = lengths(search.best)[request["id"]][0]
        if search.attempt(put(search.best, keys, length)):
            continue
        shorter_list(search, keys, keep=1)
        for part in range(len(at(search.best, keys))):
            _plainer_part(search, keys, part)
        search.attempt(put(search.best, keys, joined(at(search.best, keys))))


def _plainer_part(search: Search, keys: Keys, index: int) -> None:
    part = at(search.best, (*keys, index))
    known = lengths(search.best)
    source = next((key for key in ("of", "output_of") if isinstance(part, dict) and key in part), None)
    if source is None:
        return
    length = part.get("take", known[part[source]][0 if source == "of" else 1])
    if search.attempt(put(search.best, (*keys, index), {"new": length})):
        return
    if "take" in part:
        search.attempt(drop(search.best, (*keys, index, "take")))


def plainer_ids(search: Search) -> None:
    """Forced tokens, seeds, stamps and priorities: as few and as small as they can be, equal ones equal."""
    for index, request in enumerate(search.best["requests"]):
        for key in ("output", "stop_token_ids"):
            if key in request:
                shorter_list(search, ("requests", index, key))
    for key in ("seed", "stamp", "priority"):
        search.attempt(renumbered(search.best, key))
    search.attempt(plain_ids(search.best))
    salts = dict.fromkeys(
        request["cache_salt"] for request in search.best["requests"] if "cache_salt" in request
    )
    for number, salt in enumerate(salts):
        search.attempt(_resalted(search.best, salt, f"s{number}"))


def _resalted(document: Document, salt: str, name: str) -> Document:
    requests = [
        {**request, "cache_salt": name} if request.get("cache_salt") == salt else request
        for request in document["requests"]
    ]
    return {**document, "requests": requests}


def _is_list(document: Document, keys: Keys) -> bool:
    try:
        return isinstance(at(document, keys), list)
    except LookupError:
        return False

"""What a subject makes of a scenario that ignores one capability: the scenario that it plays in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Wire = dict[str, Any]
MUCH_MEMORY = 1 << 22  # bytes


def _config(wire: Wire, **changed: object) -> Wire:
    return {**wire, "config": {**wire["config"], **changed}}


def _timeline(wire: Wire, **changed: object) -> Wire:
    return {**wire, "timeline": {**wire["timeline"], **changed}} if wire["timeline"] else wire


def _requests(wire: Wire, **changed: object) -> Wire:
    if not wire["timeline"]:
        return wire
    return _timeline(wire, requests=[{**request, **changed} for request in wire["timeline"]["requests"]])


def _without_aborts(wire: Wire, when: str) -> Wire:
    if not wire["timeline"]:
        return wire
    return _timeline(wire, aborts=[item for item in wire["timeline"]["aborts"] if item["when"] != when])


def _own_tokens(wire: Wire) -> Wire:
    """Tokens of its own choice: never the one that would stop it."""
    if not wire["timeline"]:
        return wire
    requests = [{**item, "output": [7] * len(item["output"])} for item in wire["timeline"]["requests"]]
    return _timeline(wire, requests=requests)


IGNORING: dict[str, Callable[[Wire], Wire]] = {
    "memory-budget": lambda wire: _config(wire, kv_cache_memory_bytes=MUCH_MEMORY),
    "auto-fit": lambda wire: _config(wire, max_model_len=wire["config"]["model"]["max_position"]),
    "forced-tokens": _own_tokens,
    "prefix-caching": lambda wire: _config(wire, enable_prefix_caching=False),
    "chunked-prefill": lambda wire: _config(
        wire, long_prefill_token_threshold=0, max_num_batched_tokens=1 << 16, enable_chunked_prefill=False
    ),
    "priority": lambda wire: _config(wire, scheduling_policy="fcfs"),
    "aborts": lambda wire: _without_aborts(wire, "before_schedule"),
    "late-aborts": lambda wire: _without_aborts(wire, "before_update"),
    "resets": lambda wire: _timeline(wire, resets=[]),
    "cache-salt": lambda wire: _requests(wire, cache_salt=None),
    "prompt-logprobs": lambda wire: _requests(wire, prompt_logprobs=None),
    "stop-tokens": lambda wire: _requests(wire, eos_token_id=None, stop_token_ids=[]),
    "min-tokens": lambda wire: _requests(wire, min_tokens=0),
}

"""Without a capability: the scenario that a subject plays in the place of the one it was asked for, if it ignores one.

A scenario tells of a capability where an engine that ignores it would show something else, and so `parity smoke` knows
where to look. `SHOWS_IN` is the field in which it shows first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from engine.driver import observe
from parity.observation import Observation, decode
from parity.scenario import Scenario

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
    "watermark": lambda wire: _config(wire, watermark=0.0),
    "forced-tokens": _own_tokens,
    "step-trace": lambda wire: wire,
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

SHOWS_IN: dict[str, str] = {
    "memory-budget": "plan.num_blocks",
    "auto-fit": "plan.max_model_len",
    "watermark": "steps.new",
    "forced-tokens": "steps.finished",
    "step-trace": "steps.scheduled",
    "prefix-caching": "steps.cached",
    "chunked-prefill": "steps.scheduled",
    "priority": "steps.scheduled",
    "aborts": "steps.aborted",
    "late-aborts": "steps.aborted_late",
    "resets": "steps.reset",
    "cache-salt": "steps.cached",
    "prompt-logprobs": "steps.cached",
    "stop-tokens": "steps.finished",
    "min-tokens": "end.outputs",
}


def without(capability: str, scenario: Scenario) -> Observation:
    """What an engine that is as upstream, and ignores the capability, does in the scenario."""
    raw = observe(IGNORING[capability](msgspec.to_builtins(scenario)))
    if capability == "step-trace" and "steps" in raw:
        raw = {**raw, "steps": []}
    return decode(scenario.level, raw)

"""Short scenarios for the engine's tests: a configuration, requests and a run, with BUGS-sized defaults.

The model has one layer, one KV head of size 8, so a float32 token takes 2 * 8 * 4 = 64 bytes.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from engine.driver import observe

MODEL = {
    "name": "tiny",
    "num_layers": 1,
    "num_kv_heads": 1,
    "head_size": 8,
    "max_position": 2048,
    "vocab_size": 100_000,
}
BLOCK_BYTES = 2 * 1 * 8 * 4 * 16 * 1  # K and V, heads, head size, float32, tokens, layers

Json = dict[str, Any]


def config(**changes: Any) -> Json:
    """A configuration with the documented defaults; `num_blocks` is 64 unless said."""
    values: Json = {
        "model": MODEL,
        "dtype": "float32",
        "block_size": 16,
        "num_blocks": 64,
        "kv_cache_memory_bytes": 1 << 30,
        "max_model_len": "auto",
        "max_num_seqs": 16,
        "max_num_batched_tokens": 8192,
        "enable_chunked_prefill": True,
        "long_prefill_token_threshold": 0,
        "scheduler_reserve_full_isl": True,
        "watermark": 0.0,
        "enable_prefix_caching": True,
        "scheduling_policy": "fcfs",
    }
    assert not changes.keys() - values.keys()
    return values | changes


class Requests:
    """Makes requests whose prompts share no token unless they are given, with arrivals in making order."""

    def __init__(self) -> None:
        self._number = count()

    def make(self, prompt: int | list[int], max_tokens: int, **changes: Any) -> Json:
        number = next(self._number)
        fresh = 1000 * (number + 1)
        values: Json = {
            "id": f"r{number}",
            "at": 0,
            "arrival": number,
            "prompt": [fresh + i for i in range(prompt)] if isinstance(prompt, int) else prompt,
            "max_tokens": max_tokens,
            "min_tokens": 0,
            "output": [fresh + 500 + i for i in range(max_tokens)],
            "eos_token_id": None,
            "ignore_eos": False,
            "stop_token_ids": [],
            "priority": 0,
            "cache_salt": None,
            "prompt_logprobs": None,
        }
        assert not changes.keys() - values.keys()
        return values | changes


def scenario(
    settings: Json,
    requests: list[Json],
    aborts: list[Json] | None = None,
    resets: list[Json] | None = None,
    max_steps: int = 2000,
) -> Json:
    timeline = {
        "requests": requests,
        "aborts": aborts or [],
        "resets": resets or [],
        "max_steps": max_steps,
    }
    return {"id": "test/scene", "level": "schedule", "config": settings, "timeline": timeline}


def play(settings: Json, requests: list[Json], **more: Any) -> Json:
    """The engine's observation of a timeline."""
    return observe(scenario(settings, requests, **more))


def plan(policies: dict[str, str] | None = None, **changes: Any) -> Json:
    """The engine's observation of a plan."""
    asked = {"id": "test/plan", "level": "plan", "config": config(**changes), "timeline": None}
    return observe(asked, policies)


def steps_with(observation: Json, field: str) -> dict[int, Any]:
    """Step number (from 0) -> value of `field`, for the steps where it is not empty."""
    return {at: step[field] for at, step in enumerate(observation["steps"]) if step[field]}


def first_scheduled(observation: Json, request_id: str) -> int:
    """The step (from 0) in which a request is scheduled first."""
    return next(at for at, step in enumerate(observation["steps"]) if request_id in dict(step["scheduled"]))

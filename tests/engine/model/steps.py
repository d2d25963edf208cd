"""Drives real steps: the engine's scheduler decides, the runner computes, the best token goes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.model_runner import ModelRunner, Row
from engine.request import Request
from engine.scheduler import Scheduler
from engine.wire import EngineConfig, RequestSpec

MAX_STEPS = 500


@dataclass
class Played:
    """What happened: tokens and the logits of every computed position, by request."""

    tokens: dict[str, list[int]] = field(default_factory=dict)  # prompt and output
    logits: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)  # (position, [vocab])
    outputs: dict[str, list[int]] = field(default_factory=dict)
    cached: dict[str, int] = field(default_factory=dict)  # tokens, at the first admission
    preempted: list[str] = field(default_factory=list)
    mixed_steps: int = 0  # steps in which somebody decoded while somebody else computed several tokens


def play(
    runner: ModelRunner,
    prompts: Mapping[str, list[int]],
    max_tokens: int,
    *,
    arrive: Mapping[str, int] | None = None,
    **settings: Any,
) -> Played:
    """Greedy generation of `max_tokens` for each prompt; `arrive` gives steps (default 0).

    `settings` changes the engine's configuration; the pool has all of the runner's blocks.
    """
    scheduler = Scheduler(_config(runner, **settings), runner.kv.num_blocks, runner.shape.max_position)
    hash_block_size = runner.kv.block_size if settings.get("enable_prefix_caching", True) else None
    played = Played()
    for at in range(MAX_STEPS):
        for number, (name, prompt) in enumerate(prompts.items()):
            if (arrive or {}).get(name, 0) == at:
                scheduler.add_request(Request(_spec(name, number, prompt, max_tokens), hash_block_size))
                played.tokens[name] = prompt
                played.logits[name] = []
                played.outputs[name] = []
        if not scheduler.requests and at > max((arrive or {"": 0}).values()):
            return played
        _step(runner, scheduler, played)
    raise AssertionError(f"still running after {MAX_STEPS} steps")


def _step(runner: ModelRunner, scheduler: Scheduler, played: Played) -> None:
    plan = scheduler.schedule()
    played.preempted += plan.preempted
    for name, count in plan.admitted.items():
        played.cached.setdefault(name, count)
    rows = []
    for name, count in plan.scheduled.items():
        request = scheduler.requests[name]
        end = request.num_computed_tokens
        row = Row(
            request_id=name,
            token_ids=request.all_token_ids[end - count : end],
            start=end - count,
            block_table=scheduler.kv.tables[name],
            sample=end == request.num_tokens,
            prompt_logits=True,
        )
        rows.append(row)
    lengths = {len(row.token_ids) for row in rows}
    played.mixed_steps += 1 in lengths and len(lengths) > 1
    logits = runner.execute(rows)
    sampled = dict(zip((row.request_id for row in rows if row.sample), logits.last, strict=True))
    tokens = {}
    for row in rows:
        every = logits.prompt[row.request_id]
        played.logits[row.request_id] += [(row.start + i, one) for i, one in enumerate(every)]
    for name, last in sampled.items():
        played.logits[name].append((played.logits[name][-1][0], last))
        tokens[name] = int(last.argmax())
        played.outputs[name].append(tokens[name])
        played.tokens[name] = [*played.tokens[name], tokens[name]]
    scheduler.update_from_output(plan, tokens)


def _spec(name: str, number: int, prompt: list[int], max_tokens: int) -> RequestSpec:
    return RequestSpec(
        id=name,
        at=0,
        arrival=number,
        prompt=prompt,
        max_tokens=max_tokens,
        min_tokens=0,
        output=[],
        eos_token_id=None,
        ignore_eos=True,
        stop_token_ids=[],
        priority=0,
        cache_salt=None,
        prompt_logprobs=None,
    )


def _config(runner: ModelRunner, **settings: Any) -> EngineConfig:
    values: dict[str, Any] = {
        "model": runner.shape,
        "dtype": "float32",
        "block_size": runner.kv.block_size,
        "num_blocks": runner.kv.num_blocks,
        "kv_cache_memory_bytes": 0,
        "max_model_len": runner.shape.max_position,
        "max_num_seqs": 16,
        "max_num_batched_tokens": 2048,
        "enable_chunked_prefill": True,
        "long_prefill_token_threshold": 0,
        "scheduler_reserve_full_isl": True,
        "watermark": 0.0,
        "enable_prefix_caching": True,
        "scheduling_policy": "fcfs",
    }
    return EngineConfig(**values | settings)

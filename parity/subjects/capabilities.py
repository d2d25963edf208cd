"""What a scenario needs of whoever plays it, and what a subject can: the same words.

Most needs follow from the scenario itself; a file adds with `needs` what shows only as it is played, as that a preempted
request finds its own blocks in the prefix cache. What a subject cannot is never played
and never silent: it is reported as unsupported, with what is missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import combinations

from parity.scenario import Case, Config, Exit, Level, Scenario, ServeScenario, Signal, Timeline, Until

CAPABILITIES: dict[str, str] = {
    "memory-budget": "sizes its pool from kv_cache_memory_bytes",
    "auto-fit": "fits max_model_len: auto",
    "watermark": "holds blocks back when it admits (watermark)",
    "forced-tokens": "takes the tokens to be sampled from the scenario",
    "step-trace": "tells what it did in each step",
    "prefix-caching": "shares the blocks of a common prefix",
    "chunked-prefill": "splits a prompt that is longer than what is left of a step's budget",
    "priority": "serves by priority",
    "aborts": "aborts a request before a step",
    "late-aborts": "aborts a request between schedule() and the update",
    "resets": "resets its prefix cache",
    "cache-salt": "keeps prefixes of different salts apart",
    "prompt-logprobs": "computes log probabilities of a prompt, and reuses nothing for it",
    "stop-tokens": "stops at EOS and at stop token ids",
    "min-tokens": "does not stop before min_tokens",
    "start-flags": "can be started with the scenario's configuration",
    "float32-weights": "serves the weights in float32",
    "signals": "is a process that the harness may send a signal to",
    "metrics": "has upstream's counters in /metrics",
    "generation-config": "takes the operator's generation config",
}
OF_LEVELS: dict[Level, tuple[str, ...]] = {
    "plan": ("memory-budget", "auto-fit"),
    "schedule": tuple(list(CAPABILITIES)[:15]),
    "serve": tuple(list(CAPABILITIES)[15:]),
}


def needs(case: Case) -> tuple[str, ...]:
    """The capabilities that this case needs, in the order of CAPABILITIES."""
    scenario = case.scenario
    found = _served(scenario) if isinstance(scenario, ServeScenario) else _driven(scenario)
    wanted = {*found, *case.needs}
    return tuple(name for name in CAPABILITIES if name in wanted)


def missing(case: Case, capabilities: Collection[str], *, shows_length: bool = True) -> tuple[str, ...]:
    """What a subject with these capabilities lacks for this case.

    A fitted length that no request can reach matters only to a subject that shows it.
    """
    wanted = {*needs(case), *(("auto-fit",) if shows_length and _is_auto(case) else ())}
    return tuple(name for name in CAPABILITIES if name in wanted and name not in capabilities)


def _is_auto(case: Case) -> bool:
    return case.scenario.level != "serve" and case.scenario.config.max_model_len == "auto"


def _driven(scenario: Scenario) -> Iterator[str]:
    config = scenario.config
    timeline = scenario.timeline
    if config.num_blocks is None:
        yield "memory-budget"
    if config.max_model_len == "auto" and (timeline is None or _could_reach(timeline, config)):
        yield "auto-fit"
    if config.watermark:
        yield "watermark"
    if timeline is None:
        return
    yield from ("forced-tokens", "step-trace")
    if config.scheduling_policy == "priority":
        yield "priority"
    prompts = sum(len(request.prompt) for request in timeline.requests)
    is_split = config.enable_chunked_prefill and prompts > config.max_num_batched_tokens
    if is_split or config.long_prefill_token_threshold:
        yield "chunked-prefill"
    if config.enable_prefix_caching and _shares_a_block(timeline, config.block_size):
        yield "prefix-caching"
    yield from _asked(timeline)


def _asked(timeline: Timeline) -> Iterator[str]:
    if any(abort.when == "before_schedule" for abort in timeline.aborts):
        yield "aborts"
    if any(abort.when == "before_update" for abort in timeline.aborts):
        yield "late-aborts"
    if timeline.resets:
        yield "resets"
    for request in timeline.requests:
        if request.cache_salt is not None:
            yield "cache-salt"
        if request.prompt_logprobs is not None:
            yield "prompt-logprobs"
        if request.min_tokens:
            yield "min-tokens"
        ends = {*request.stop_token_ids, *(() if request.ignore_eos else (request.eos_token_id,))}
        if ends.intersection(request.output):
            yield "stop-tokens"


def _could_reach(timeline: Timeline, config: Config) -> bool:
    """Whether a request could reach the fitted length: every block but one holds less than that length or as much."""
    if config.num_blocks is None:
        return True
    fits = min(config.model.max_position, (config.num_blocks - 1) * config.block_size)
    return any(len(request.prompt) + request.max_tokens > fits for request in timeline.requests)


def _shares_a_block(timeline: Timeline, block_size: int) -> bool:
    """Whether a prompt begins with a block of another request's; its own last token is always computed."""
    firsts = [
        (len(request.prompt) > block_size, [*request.prompt, *request.output][:block_size])
        for request in timeline.requests
    ]
    return any(
        left == right and len(left) == block_size and (finds or found)
        for (finds, left), (found, right) in combinations(firsts, 2)
    )


def _served(scenario: ServeScenario) -> Iterator[str]:
    yield "start-flags"
    if scenario.config.dtype == "float32":
        yield "float32-weights"
    if any(isinstance(action, Signal | Exit) for action in scenario.script):
        yield "signals"
    if _looks_at_the_load(scenario):
        yield "metrics"
    if (
        scenario.config.generation_config is not None
        or scenario.config.override_generation_config is not None
    ):
        yield "generation-config"


def _looks_at_the_load(scenario: ServeScenario) -> bool:
    """Whether the load that `/metrics` tells decides what is said.

    Only it tells whether a client that gave up was met with silence, and what of an answer is a matter of
    time when a signal cuts it off.
    """
    return (
        any(isinstance(action, Until | Signal) for action in scenario.script)
        or any(exchange.deadline is not None for exchange in scenario.exchanges)
        or any(exchange.path.partition("?")[0] == "/metrics" for exchange in scenario.exchanges)
    )

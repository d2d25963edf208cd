"""The behaviours of level plan that a hunt tells apart: what start-up arithmetic came to, and why it refused."""

from __future__ import annotations

from collections.abc import Iterator

from parity.observation import PlanError, PlanOk
from parity.scenario import Scenario

_KINDS = (
    "max-model-len-above-model",
    "batched-tokens-below-max-model-len",
    "batched-tokens-below-max-num-seqs",
    "long-prefill-threshold-above-max-model-len",
    "no-kv-cache-memory",
    "kv-cache-too-small",
    "cannot-auto-fit",
)
_WARNINGS = ("batched-tokens-exceed-seqs-times-len",)
VOCABULARY = (
    "ok",
    *_KINDS,
    *_WARNINGS,
    "warned-and-refused",
    "estimate-named",
    "estimate-missing",
    # the length
    "auto-keeps-model-length",
    "auto-reduced",
    "explicit-length",
    "length-at-model-limit",
    "length-ends-within-a-block",
    "length-needs-the-null-block",
    # the pool
    "override-above-memory",
    "override-below-memory",
    "memory-to-the-byte",
    "memory-left-over",
    "no-usable-block",
    "one-usable-block",
    # the labels
    "one-request-fits",
    "size-above-usable",
    "size-within-usable",
    "size-loses-a-token",  # to the binary quotient
    # limits
    "chunking-off",
    "threshold-set",
)


def reached(scenario: Scenario, plan: PlanOk | PlanError) -> frozenset[str]:
    """The names of VOCABULARY that the plan shows; a kind that it does not have is none."""
    names = set(plan.warnings)
    if isinstance(plan, PlanError):
        names.add(plan.kind)
        names.update(_refusal(plan))
    else:
        names.add("ok")
        names.update(_length(scenario, plan))
        names.update(_pool(scenario, plan))
        names.update(_labels(scenario, plan))
    return frozenset(names.intersection(VOCABULARY))


def _refusal(plan: PlanError) -> Iterator[str]:
    if plan.warnings:
        yield "warned-and-refused"
    if plan.kind == "kv-cache-too-small":
        yield "estimate-missing" if plan.estimated_max_model_len is None else "estimate-named"


def _length(scenario: Scenario, plan: PlanOk) -> Iterator[str]:
    config = scenario.config
    length, most = plan.max_model_len, config.model.max_position
    if config.max_model_len != "auto":
        yield "explicit-length"
        if length == most:
            yield "length-at-model-limit"
    else:
        yield "auto-keeps-model-length" if length == most else "auto-reduced"
    if length % config.block_size:
        yield "length-ends-within-a-block"
    if -(-(length - 1) // config.block_size) > plan.usable_blocks:
        yield "length-needs-the-null-block"
    if not config.enable_chunked_prefill:
        yield "chunking-off"
    if config.long_prefill_token_threshold:
        yield "threshold-set"


def _pool(scenario: Scenario, plan: PlanOk) -> Iterator[str]:
    config, per_block = scenario.config, plan.bytes_per_block
    if config.num_blocks is not None:
        above = plan.num_blocks * per_block > config.kv_cache_memory_bytes
        yield "override-above-memory" if above else "override-below-memory"
    else:
        yield "memory-left-over" if config.kv_cache_memory_bytes % per_block else "memory-to-the-byte"
    if plan.usable_blocks <= 1:
        yield "one-usable-block" if plan.usable_blocks else "no-usable-block"


def _labels(scenario: Scenario, plan: PlanOk) -> Iterator[str]:
    blocks, per_request = plan.concurrency
    if blocks == per_request:
        yield "one-request-fits"
    size, slots = plan.kv_cache_size_tokens, plan.usable_blocks * scenario.config.block_size
    yield "size-above-usable" if size > slots else "size-within-usable"
    if size < blocks * plan.max_model_len // per_request:
        yield "size-loses-a-token"

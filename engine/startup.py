"""From options to a model that serves: every check that needs no weights first, then the log, then the weights."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import capacity
from engine.capacity import PlanOk, PlanRefused
from engine.errors import ModelError, StartupError, UsageError
from engine.model_folder import resolve_folder
from engine.options import EngineOptions
from engine.shape import ModelFacts, read_facts, read_json
from engine.threads import run_apart, spin_briefly
from engine.wire import EngineConfig

if TYPE_CHECKING:
    from engine.llm import LLM

logger = logging.getLogger("nullblock.engine")

# Fields of a model's generation config that are sampling defaults, and their names among ours.
SAMPLING_DEFAULTS = {
    "repetition_penalty": "repetition_penalty",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "max_new_tokens": "max_tokens",
}
GIB = 1 << 30
MOST_BLOCKS = 1 << 22


def plan_or_refuse(config: EngineConfig, options: EngineOptions) -> PlanOk:
    """The start-up plan. Raises UsageError that says which flag to change where the engine cannot start."""
    check_size(config)
    plan = capacity.plan(config, options.policies)
    if isinstance(plan, PlanRefused):
        message, hint = explain(plan, config)
        raise UsageError(message, hint=hint)
    return plan


def explain(refused: PlanRefused, config: EngineConfig) -> tuple[str, str]:
    """A refusal in a sentence, and the flag that mends it."""
    limit = config.model.max_position
    length = limit if config.max_model_len == "auto" else config.max_model_len
    budget, seqs = config.max_num_batched_tokens, config.max_num_seqs
    estimate = refused.estimated_max_model_len
    fits = f"--max-model-len {estimate} fits, or give more blocks" if estimate else "give more blocks"
    sentences = {
        "max-model-len-above-model": (
            f"--max-model-len {length} is above the model's own limit of {limit} tokens",
            "lower it, or use auto",
        ),
        "batched-tokens-below-max-model-len": (
            f"without chunked prefill --max-num-batched-tokens {budget} must reach the length of {length}",
            "raise it, or let prefill be chunked",
        ),
        "batched-tokens-below-max-num-seqs": (
            f"--max-num-batched-tokens {budget} is below --max-num-seqs {seqs}",
            "raise the one or lower the other",
        ),
        "long-prefill-threshold-above-max-model-len": (
            f"--long-prefill-token-threshold {config.long_prefill_token_threshold} is above the length of {length}",
            "lower it",
        ),
        "no-kv-cache-memory": ("there is no memory for a single block of the KV cache", "give more blocks"),
        "kv-cache-too-small": (f"one request of {length} tokens does not fit into the KV cache", fits),
        "cannot-auto-fit": (
            "the KV cache is too small for a single token",
            "raise --num-gpu-blocks-override or --kv-cache-memory-bytes",
        ),
    }
    return sentences.get(refused.kind, (f"the engine cannot start: {refused.kind}", "change the flags"))


def start_up_log(plan: PlanOk, config: EngineConfig) -> list[str]:
    """What upstream says at start-up, in its order. Mirrors vllm/v1/core/kv_cache_utils.py::get_kv_cache_configs."""
    lines: list[str] = []
    if config.max_model_len == "auto":
        own, memory = config.model.max_position, plan.num_blocks * plan.bytes_per_block
        if plan.max_model_len < own:
            lines.append(
                f"Auto-fit max_model_len: reduced from {own} to {plan.max_model_len} "
                f"({memory / GIB:.2f} GiB for the KV cache)"
            )
        else:
            lines.append(f"Auto-fit max_model_len: the model's full length of {own} fits")
    lines.append(f"KV cache size: {plan.kv_cache_size_tokens:,} tokens")
    lines.append(
        f"Maximum concurrency for {plan.max_model_len:,} tokens per request: {plan.concurrency_label}"
    )
    return lines


def check_size(config: EngineConfig) -> None:
    """Raise UsageError for a pool of more blocks than the scheduler's own tables are made for."""
    if num_blocks(config) > MOST_BLOCKS:
        raise UsageError(
            f"{num_blocks(config)} blocks are more than the {MOST_BLOCKS} that this engine keeps account of",
            hint="lower --num-gpu-blocks-override or --kv-cache-memory-bytes, or raise --block-size",
        )


def num_blocks(config: EngineConfig) -> int:
    """Blocks that the configuration asks for, the null block included."""
    if config.num_blocks is not None:
        return config.num_blocks
    return config.kv_cache_memory_bytes // config.bytes_per_block


def check_memory(config: EngineConfig, folder: Path) -> None:
    """Raise StartupError when pool and weights are more than this machine has left, where it says how much that is."""
    available = available_memory()
    pool = num_blocks(config) * config.bytes_per_block
    weights = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    if available is not None and pool + weights > available:
        raise StartupError(
            f"{pool / GIB:.2f} GiB of KV cache and {weights / GIB:.2f} GiB of weights do not fit into the "
            f"{available / GIB:.2f} GiB of memory that are free",
            hint="lower --num-gpu-blocks-override or --kv-cache-memory-bytes",
        )


def available_memory() -> int | None:
    """Bytes that can be had without swapping; null where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = next((line.split() for line in lines if line.startswith("MemAvailable:")), None)
    return int(found[1]) * 1024 if found else None


def generation_config(folder: Path, override: Mapping[str, Any]) -> dict[str, Any]:
    """The model's generation config with the operator's values over it; empty where the model has none."""
    path = folder / "generation_config.json"
    return (read_json(path) if path.is_file() else {}) | dict(override)


def sampling_defaults(config: Mapping[str, Any]) -> dict[str, float]:
    """The sampling parameters that clients get who name none. Mirrors ::ModelConfig.get_diff_sampling_param."""
    return {
        ours: config[theirs]
        for theirs, ours in SAMPLING_DEFAULTS.items()
        if isinstance(config.get(theirs), int | float)
    }


def eos_ids(config: Mapping[str, Any]) -> tuple[int, ...]:
    """The EOS ids of a generation config, one or several."""
    value = config.get("eos_token_id")
    return tuple(value) if isinstance(value, list) else () if value is None else (int(value),)


def load_llm(options: EngineOptions, progress: Callable[[str], None]) -> LLM:
    """A model that serves, its core started; `progress` gets a line a stage.

    Raises UsageError or StartupError, before weights are read where it can be known then.
    """
    folder = resolve_folder(options.model)
    facts = read_facts(folder)
    config = options.config(facts.shape, facts.dtype)
    check_memory(config, folder)
    plan = plan_or_refuse(config, options)
    generation = generation_config(folder, options.override_generation_config)
    for line in start_up_log(plan, config):
        logger.info(line)
    progress(f"loading {folder.name} in {config.dtype}")
    return _load(options, folder, facts, config, plan, generation)


def _load(
    options: EngineOptions,
    folder: Path,
    facts: ModelFacts,
    config: EngineConfig,
    plan: PlanOk,
    generation: Mapping[str, Any],
) -> LLM:
    """The part that needs torch and transformers."""
    spin_briefly()
    try:
        from engine.core import EngineCore
        from engine.llm import LLM
        from engine.model_runner import ModelRunner
        from engine.tokenizer import Tokenizer
    except ModuleNotFoundError as error:
        raise StartupError(
            f"{error.name} is not installed", hint="`make model` installs what a model needs"
        ) from error
    try:
        tokenizer = Tokenizer.load(folder, plain=options.plain)
        load = partial(
            ModelRunner.load,
            folder,
            config.dtype,
            options.device,
            plan.num_blocks,
            config.block_size,
            config.max_num_batched_tokens,
            options.plain,
        )
        runner = run_apart(load)
    except (ModelError, OSError, ValueError, MemoryError, RuntimeError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise StartupError(f"{folder.name} cannot be loaded: {first}") from error
    if (runner.shape.num_layers, runner.shape.num_kv_heads, runner.shape.head_size) != (
        facts.shape.num_layers,
        facts.shape.num_kv_heads,
        facts.shape.head_size,
    ):
        raise StartupError(f"{folder}/config.json and the loaded model disagree on the KV cache's shape")
    core = EngineCore(
        runner, config, plan, options.policies, seed=options.seed, device=options.device, plain=options.plain
    )
    core.start()
    ceiling = options.override_generation_config.get("max_new_tokens")
    return LLM(
        core,
        tokenizer,
        name=options.served_model_name or options.model,
        defaults=sampling_defaults(generation),
        ceiling=ceiling if isinstance(ceiling, int) else None,
        more_eos_token_ids=eos_ids(generation),
    )

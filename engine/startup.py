"""From options to a model that serves: every check that needs no weights first, then the log, then the weights."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from engine import capacity, generation_config
from engine.capacity import PlanOk, PlanRefused
from engine.errors import ModelError, StartupError, UsageError
from engine.families import architectures, check_computed
from engine.generation_config import GenerationConfig
from engine.model_folder import check_tokenizer, resolve_folder
from engine.options import EngineOptions
from engine.sampling import RequestRefused
from engine.shape import ModelFacts, read_facts
from engine.threads import run_apart, spin_briefly
from engine.weight_files import check_layers
from engine.wire import EngineConfig

if TYPE_CHECKING:
    from engine.llm import LLM
    from engine.preparation import Preparer
    from engine.tokenizer import Tokenizer

logger = logging.getLogger("nullblock.engine")

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


def warnings_of(plan: PlanOk, facts: ModelFacts, config: EngineConfig) -> list[str]:
    """What is odd about a start that is possible, a sentence each."""
    sentences = {
        "batched-tokens-exceed-seqs-times-len": (
            f"--max-num-batched-tokens {config.max_num_batched_tokens} is more than the "
            f"{config.max_num_seqs * plan.max_model_len} tokens that --max-num-seqs {config.max_num_seqs} requests "
            f"of {plan.max_model_len} can ever have"
        )
    }
    lines = [sentences.get(kind, kind) for kind in plan.warnings]
    if not plan.usable_blocks:
        lines.append(
            "there is no block but the null block, which is never handed out: every request waits for ever "
            "(mirrored behaviour) — raise --num-gpu-blocks-override or --kv-cache-memory-bytes"
        )
    if facts.unknown_dtype is not None:
        lines.append(
            f"config.json names the dtype {facts.unknown_dtype}, which nothing here computes in: "
            f"{config.dtype} is taken"
        )
    return lines


class Start(msgspec.Struct, frozen=True):
    """All that is known of a start before anything heavy is imported."""

    options: EngineOptions
    folder: Path
    facts: ModelFacts
    config: EngineConfig
    plan: PlanOk
    generation: GenerationConfig


def check_start(options: EngineOptions) -> Start:
    """Everything that options, config.json and the headers of the weights can tell. Raises UsageError or StartupError."""
    folder = resolve_folder(options.model)
    facts = read_facts(folder)
    check_computed(facts.architecture, facts.quantised, architectures())
    check_tokenizer(folder)
    generation = generation_config.read(folder, options.override_generation_config, options.generation_config)
    try:
        check_layers(folder, facts.shape.num_layers)
    except ModuleNotFoundError as error:
        raise _not_installed(error) from error
    config = options.config(facts.shape, facts.dtype)
    check_memory(config, folder)
    return Start(options, folder, facts, config, plan_or_refuse(config, options), generation)


def load_llm(
    options: EngineOptions,
    progress: Callable[[str], None],
    first: Callable[[Preparer], object] | None = None,
) -> LLM:
    """A model that serves, its core started; `progress` gets a line a stage.

    `first` may refuse a request that is known already, before weights are read.
    Raises UsageError or StartupError, before the log where config.json or the weights' headers tell.
    """
    spin_briefly()
    start = check_start(options)
    try:
        from engine.preparation import Preparer

        tokenizer = _prepare_load(start)
    except ModuleNotFoundError as error:
        raise _not_installed(error) from error
    generation, plan = start.generation, start.plan
    if first is not None:
        default = generation.defaults.get("max_tokens")
        first(
            Preparer(tokenizer, plan.max_model_len, start.facts.shape.vocab_size, default, generation.ceiling)
        )
    for line in start_up_log(plan, start.config):
        logger.info(line)
    unheeded = generation_config.without_effect(start.options.override_generation_config)
    for line in (
        *warnings_of(plan, start.facts, start.config),
        *unheeded,
        *template_warnings(tokenizer),
    ):
        logger.warning(line)
    if _compiles(start):
        progress("compiling kernels for this machine, dtype and head size, once: some ten seconds")
    progress(f"loading {start.folder.name} in {start.config.dtype}")
    return _load(start, tokenizer)


def _compiles(start: Start) -> bool:
    from engine.model_runner import must_compile

    options, head_size = start.options, start.facts.shape.head_size
    return not options.plain and must_compile(start.config.dtype, options.device, head_size)


def _not_installed(error: ModuleNotFoundError) -> StartupError:
    return StartupError(f"{error.name} is not installed", hint="`make model` installs what a model needs")


def _prepare_load(start: Start) -> Tokenizer:
    """What torch and transformers must be asked before weights are read, and the tokenizer."""
    import torch

    from engine.models import family_of
    from engine.tokenizer import Tokenizer
    from engine.weights import read_config

    if start.options.device == "cuda" and not torch.cuda.is_available():
        raise StartupError("no CUDA device is there", hint="choose --device cpu")
    family_of(read_config(start.folder))
    try:
        return Tokenizer.load(start.folder, plain=start.options.plain)
    except Exception as error:  # whatever transformers raises for files that are no tokenizer's
        raise _cannot_load(start.folder, error, "the tokenizer of ") from error


def template_warnings(tokenizer: Tokenizer) -> list[str]:
    """Whether the chat template is one at all; upstream as well finds out when somebody chats, and refuses with 400."""
    from jinja2 import TemplateSyntaxError

    if not tokenizer.has_chat_template:
        return []
    try:
        tokenizer.chat_prompt([{"role": "user", "content": "Hello"}])
    except RequestRefused as error:
        if isinstance(error.__cause__, TemplateSyntaxError):
            return [f"the chat template is broken, and every chat will be refused: {error.__cause__.message}"]
    return []


def _cannot_load(folder: Path, error: BaseException, what: str = "") -> StartupError:
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return StartupError(f"{what}{folder.name} cannot be loaded: {first}")


def _load(start: Start, tokenizer: Tokenizer) -> LLM:
    """Weights, core and what serves."""
    from engine.core import EngineCore
    from engine.llm import LLM
    from engine.model_runner import ModelRunner

    options, config, plan, wanted = start.options, start.config, start.plan, start.facts.shape
    try:
        load = partial(
            ModelRunner.load,
            start.folder,
            config.dtype,
            options.device,
            plan.num_blocks,
            config.block_size,
            config.max_num_batched_tokens,
            options.plain,
        )
        runner = run_apart(load)
    except (ModelError, OSError, ValueError, MemoryError, RuntimeError) as error:
        raise _cannot_load(start.folder, error) from error
    found = runner.shape
    if (found.num_layers, found.num_kv_heads, found.head_size) != (
        wanted.num_layers,
        wanted.num_kv_heads,
        wanted.head_size,
    ):
        raise StartupError(
            f"{start.folder}/config.json and the loaded model disagree on the KV cache's shape"
        )
    core = EngineCore(
        runner, config, plan, options.policies, seed=options.seed, device=options.device, plain=options.plain
    )
    core.start()
    return LLM(
        core,
        tokenizer,
        name=options.served_model_name or options.model,
        defaults=start.generation.defaults,
        ceiling=start.generation.ceiling,
        more_eos_token_ids=start.generation.eos_token_ids,
    )

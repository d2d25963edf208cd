"""`nullblock plan MODEL`: the start-up arithmetic, line by line, from a config.json or a shape; loads no weights."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from engine.cli.options import Commands, add_capacity, add_json, engine_options, verb
from engine.cli.output import say, show
from engine.errors import ExitCode, ModelError, UsageError

if TYPE_CHECKING:
    from engine.capacity import PlanOk
    from engine.options import EngineOptions
    from engine.shape import ModelFacts
    from engine.wire import EngineConfig

RECORD = "records/auto-fit/null-block-counted.md"


def register(commands: Commands) -> None:
    parser = verb(
        commands,
        "plan",
        "explain how many blocks there are and how long a request may get",
        "nullblock plan .models/tiny-opt --num-gpu-blocks-override 4\n"
        "  nullblock plan --shape layers=12,kv-heads=12,head-size=64,max-position=2048 --num-gpu-blocks-override 4",
        execute,
    )
    parser.add_argument("model", nargs="?", default=None, metavar="MODEL", help="a folder with a config.json")
    parser.add_argument("--shape", metavar="K=V,…", help="a shape in place of a model (see the example)")
    add_capacity(parser)
    add_json(parser)


def execute(args: argparse.Namespace) -> int:
    import msgspec

    from engine import capacity
    from engine.capacity import PlanRefused
    from engine.startup import check_size, explain

    options = engine_options(args)
    facts = _facts(args)
    config = options.config(facts.shape, facts.dtype)
    check_size(config)
    plan = capacity.plan(config, options.policies)
    if args.json:
        show(msgspec.json.encode(plan).decode())
        return ExitCode.USAGE if isinstance(plan, PlanRefused) else ExitCode.OK
    if isinstance(plan, PlanRefused):
        message, hint = explain(plan, config)
        raise UsageError(message, hint=hint)
    show("\n".join(lines(plan, facts, config, options)))
    return ExitCode.OK


def _facts(args: argparse.Namespace) -> ModelFacts:
    """What is known of the model; that no family computes it is said, and its arithmetic is still worth having."""
    from engine.families import architectures, check_computed
    from engine.model_folder import folder_named, shown
    from engine.shape import ModelFacts, parse_shape, read_facts

    if (args.model is None) == (args.shape is None):
        raise UsageError("name a MODEL or give --shape, one of the two", hint="see 'nullblock plan --help'")
    if args.shape is not None:
        return ModelFacts(parse_shape(args.shape), "float32")
    folder, kind = folder_named(args.model)
    if kind != "folder":
        raise ModelError(f"no model folder {shown(args.model)}: give a folder with config.json")
    facts = read_facts(folder)
    try:
        check_computed(facts.architecture, facts.quantised, architectures())
    except ModelError as error:
        say(f"warning: serve and generate refuse this model: {error}")
    return facts


def lines(plan: PlanOk, facts: ModelFacts, config: EngineConfig, options: EngineOptions) -> list[str]:
    """The arithmetic that made `plan`, a step a line, with the flag that each number comes from."""
    from engine.startup import warnings_of

    size, blocks = config.block_size, plan.num_blocks
    fitted = config.max_model_len == "auto"
    reserved = options.policies.null_block_capacity.reserves
    text = _memory_lines(config, plan.bytes_per_block)
    own = config.model.max_position
    counted = f"({blocks} - 1)" if reserved else f"{blocks}"
    if fitted:
        text.append(
            f"max_model_len        = min({counted} blocks x {size} tokens, the model's {own}) = {plan.max_model_len}"
            "   --max-model-len auto"
        )
    else:
        text.append(f"max_model_len        = {plan.max_model_len} tokens, asked for   --max-model-len")
    needed = plan.concurrency[1]
    text += [
        f"one request          = {needed} blocks: {plan.max_model_len} tokens / {size}, rounded up",
        f"maximum concurrency  = {blocks} / {needed} blocks = {plan.concurrency_label}",
        f"KV cache size        = {plan.kv_cache_size_tokens} tokens",
        f"usable blocks        = {plan.usable_blocks}: block 0 is the null block and is never handed out",
        f"a request may fill   = {plan.usable_blocks} x {size} = {plan.usable_blocks * size} slots; "
        "one of P prompt and M output tokens needs P + M - 1",
    ]
    text += [f"warning: {line}" for line in warnings_of(plan, facts, config)]
    if plan.usable_blocks and plan.max_model_len - 1 > plan.usable_blocks * size:
        text.append(
            f"warning: a request of {plan.max_model_len} tokens needs {plan.max_model_len - 1} slots and waits for "
            f"ever (mirrored behaviour: {RECORD}; --policy null-block-capacity=reserve plans without it)"
        )
    return text


def _memory_lines(config: EngineConfig, per_block: int) -> list[str]:
    from engine.wire import KV_BYTES

    model, width = config.model, KV_BYTES[config.dtype]
    text = [
        f"bytes a token        = 2 (K and V) x {model.num_layers} layers x {model.num_kv_heads} KV heads x "
        f"{model.head_size} x {width} ({config.dtype}) = {per_block // config.block_size}   --dtype",
        f"bytes a block        = {per_block // config.block_size} x {config.block_size} tokens = {per_block}"
        "   --block-size",
    ]
    if config.num_blocks is None:
        memory = config.kv_cache_memory_bytes
        text.append(
            f"blocks               = {memory} bytes / {per_block} = {memory // per_block}   --kv-cache-memory-bytes"
        )
    else:
        text.append(
            f"blocks               = {config.num_blocks}, asked for ({config.num_blocks * per_block} bytes)"
            "   --num-gpu-blocks-override"
        )
    return text

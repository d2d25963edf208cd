"""`nullblock generate MODEL PROMPT`: the continuation on stdout as it comes, progress on stderr."""

from __future__ import annotations

import argparse
import logging
import sys
import threading
import time
from typing import TYPE_CHECKING, TextIO

from engine.cli.options import (
    Commands,
    add_capacity,
    add_engine,
    add_json,
    add_model,
    add_number,
    engine_options,
    verb,
)
from engine.cli.output import say
from engine.errors import ExitCode, StartupError, UsageError
from engine.throughput import IncompleteRunError, RequestRun, require_complete_request_set

if TYPE_CHECKING:
    from engine.generation import TextOutput
    from engine.llm import LLM, Completed, Prepared

STALL_SECONDS = 2.0  # between two looks at whether the request can still end


def register(commands: Commands) -> None:
    parser = verb(
        commands,
        "generate",
        "continue a prompt and print the text",
        'nullblock generate .models/smollm2-135m-instruct "The capital of France is" --max-tokens 8',
        execute,
    )
    add_model(parser)
    parser.add_argument("prompt", metavar="PROMPT", help="the text to continue; - reads it from stdin")
    group = parser.add_argument_group("sampling")
    add_number(group, "--max-tokens", "tokens to generate (default: %(default)s)", default=16)
    group.add_argument(
        "--temperature",
        type=float,
        default=0.0,
        metavar="T",
        help="0 always takes the likeliest token (default: 0)",
    )
    group.add_argument(
        "--seed", type=int, default=None, metavar="N", help="of the draws, where the temperature is above 0"
    )
    group.add_argument("--ignore-eos", action="store_true", help="go on after the end of the text")
    add_capacity(parser)
    add_engine(parser)
    add_json(parser)


def execute(args: argparse.Namespace) -> int:
    from engine.startup import load_llm

    prompt = sys.stdin.read() if args.prompt == "-" else args.prompt
    started = time.perf_counter()
    options = engine_options(_without_seed(args))
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("nullblock.engine")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        llm = load_llm(options, say)
        try:
            say(f"ready after {time.perf_counter() - started:.1f} s")
            return _generate(args, llm, prompt)
        finally:
            llm.stop()
    finally:
        logger.removeHandler(handler)


def _without_seed(args: argparse.Namespace) -> argparse.Namespace:
    """--seed is the request's here, not the engine's."""
    return argparse.Namespace(**{name: value for name, value in vars(args).items() if name != "seed"})


def _generate(args: argparse.Namespace, llm: LLM, prompt: str) -> int:
    prepared = _prepare(args, llm, prompt)

    started = time.perf_counter()
    choice = _wait(llm, prepared, None if args.json else sys.stdout)
    seconds = time.perf_counter() - started
    if args.json:
        _print_json(prepared, choice)
    else:
        print()
    run = RequestRun("prompt", choice.finish_reason, len(choice.token_ids), error=choice.error)
    try:
        rate = require_complete_request_set([run], 1).tokens_per_second(seconds)
    except IncompleteRunError as error:
        raise StartupError(str(error)) from error
    say(f"{len(choice.token_ids)} tokens in {seconds:.2f} s, {rate:.1f} a second, prefill included")
    return ExitCode.OK


def _wait(llm: LLM, prepared: Prepared, show: TextIO | None) -> Completed:
    """The whole continuation; its text goes to `show` as it comes. Raises StartupError when it can never end."""
    from engine.llm import join

    news = threading.Event()
    generation = llm.submit(prepared, news.set)
    outputs: list[TextOutput] = []
    while not generation.done:
        if not news.wait(STALL_SECONDS) and llm.stats().stalled:
            if show is not None:
                print(file=show)
            raise StartupError(
                f"the request needs more blocks than the {llm.core.plan.usable_blocks} that can be handed out and "
                "waits for ever (mirrored behaviour: records/preemption/sole-request-waits-for-ever.md)",
                hint="raise --num-gpu-blocks-override or lower --max-tokens",
            )
        news.clear()
        for output in generation.take():
            outputs.append(output)
            if show is not None:
                print(output.text, end="", file=show, flush=True)
    return join(0, outputs)


def _prepare(args: argparse.Namespace, llm: LLM, prompt: str) -> Prepared:
    from engine.sampling import RequestRefused, SamplingParams

    params = SamplingParams(temperature=args.temperature, seed=args.seed, ignore_eos=args.ignore_eos)
    try:
        return llm.prepare(prompt, params, max_tokens=args.max_tokens)
    except RequestRefused as error:
        raise UsageError(str(error)) from error


def _print_json(prepared: Prepared, choice: Completed) -> None:
    import msgspec

    value = {
        "text": choice.text,
        "token_ids": choice.token_ids,
        "finish_reason": choice.finish_reason,
        "stop_reason": choice.stop_reason,
        "usage": {"prompt_tokens": len(prepared.prompt), "completion_tokens": len(choice.token_ids)},
    }
    print(msgspec.json.encode(value).decode())

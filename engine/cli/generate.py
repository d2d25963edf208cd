"""`nullblock generate MODEL PROMPT`: the continuation on stdout as it comes, progress on stderr."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

from engine.cli import signals
from engine.cli.options import (
    LARGEST,
    Commands,
    add_capacity,
    add_engine,
    add_json,
    add_model,
    add_number,
    engine_options,
    request_seed,
    verb,
)
from engine.cli.output import say, show
from engine.errors import ExitCode, StartupError, UsageError
from engine.throughput import IncompleteRunError, RequestRun, require_complete_request_set

if TYPE_CHECKING:
    from engine.generation import TextOutput
    from engine.llm import LLM, Completed, Prepared
    from engine.preparation import Preparer
    from engine.sampling import SamplingParams

POLL_SECONDS = 0.1  # between two looks at whether a signal has come
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
        "--seed",
        type=request_seed,
        default=None,
        metavar="N",
        help="of the draws, where the temperature is above 0",
    )
    group.add_argument("--ignore-eos", action="store_true", help="go on after the end of the text")
    add_capacity(parser)
    add_engine(parser)
    add_json(parser)


def execute(args: argparse.Namespace) -> int:
    from engine.startup import load_llm

    prompt = _prompt(args.prompt)
    params = _params(args)
    prepared: list[Prepared] = []
    started = time.perf_counter()
    options = engine_options(_without_seed(args))
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("nullblock.engine")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        llm = load_llm(
            options, say, lambda preparer: prepared.append(_prepare(preparer, args, prompt, params))
        )
        try:
            say(f"ready after {time.perf_counter() - started:.1f} s")
            return _generate(args, llm, prepared[0])
        finally:
            llm.stop()
    finally:
        logger.removeHandler(handler)


def _prompt(given: str) -> str:
    """The text to continue. Raises UsageError for one that is no text, StartupError where stdin cannot be read."""
    try:
        if given == "-":
            if sys.stdin is None:
                raise UsageError("there is no stdin to read the prompt from", hint="give the prompt itself")
            given = sys.stdin.read()
        given.encode()
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise UsageError(f"the prompt is not valid UTF-8: {error.reason}") from error
    except OSError as error:
        raise StartupError(f"the prompt cannot be read from stdin ({error.strerror})") from error
    return given


def _without_seed(args: argparse.Namespace) -> argparse.Namespace:
    """--seed is the request's here, not the engine's."""
    return argparse.Namespace(**{name: value for name, value in vars(args).items() if name != "seed"})


def _params(args: argparse.Namespace) -> SamplingParams:
    """What is asked of sampling, checked as far as it can be without a model."""
    from engine.sampling import RequestRefused, SamplingParams

    params = SamplingParams(temperature=args.temperature, seed=args.seed, ignore_eos=args.ignore_eos)
    try:
        params.validate(vocab_size=1, max_model_len=LARGEST)
    except RequestRefused as error:
        raise UsageError(f"--{error}") from error
    return params


def _prepare(preparer: Preparer, args: argparse.Namespace, prompt: str, params: SamplingParams) -> Prepared:
    from engine.sampling import RequestRefused

    try:
        return preparer.prepare(prompt, params, max_tokens=args.max_tokens, max_tokens_param="--max-tokens")
    except RequestRefused as error:
        raise UsageError(str(error)) from error


def _generate(args: argparse.Namespace, llm: LLM, prepared: Prepared) -> int:
    started = time.perf_counter()
    with signals.noted() as noted:
        choice = _wait(llm, prepared, noted, shown=not args.json)
    seconds = time.perf_counter() - started
    if args.json:
        _print_json(prepared, choice)
    else:
        show("")
    count = len(choice.token_ids)
    if noted.number is not None and choice.finish_reason == "abort":
        name = signal.Signals(noted.number).name
        raise signals.Interrupted(f"{name}: stopped after {count} tokens", noted.number)
    run = RequestRun("prompt", choice.finish_reason, count, error=choice.error)
    try:
        rate = require_complete_request_set([run], 1).tokens_per_second(seconds)
    except IncompleteRunError as error:
        raise StartupError(str(error)) from error
    say(f"{count} tokens in {seconds:.2f} s, {rate:.1f} a second, prefill included")
    return ExitCode.OK


def _wait(llm: LLM, prepared: Prepared, noted: signals.Noted, *, shown: bool) -> Completed:
    """The whole continuation; its text is `shown` as it comes. A signal that is noted aborts it.

    Raises StartupError when it can never end.
    """
    from engine.llm import join

    news = threading.Event()
    generation = llm.submit(prepared, news.set)
    outputs: list[TextOutput] = []
    patience = STALL_SECONDS
    while not generation.done:
        if noted.number is not None:
            llm.stop()
        elif news.wait(POLL_SECONDS):
            patience = STALL_SECONDS
        else:
            patience -= POLL_SECONDS
            if patience <= 0 and llm.stats().stalled:
                raise _stuck(llm, shown)
        news.clear()
        for output in generation.take():
            outputs.append(output)
            if shown:
                show(output.text, end="")
    return join(0, outputs)


def _stuck(llm: LLM, shown: bool) -> StartupError:
    if shown:
        show("")
    return StartupError(
        f"the request needs more blocks than the {llm.core.plan.usable_blocks} that can be handed out and "
        "waits for ever (mirrored behaviour: records/preemption/sole-request-waits-for-ever.md)",
        hint="raise --num-gpu-blocks-override or lower --max-tokens",
    )


def _print_json(prepared: Prepared, choice: Completed) -> None:
    import msgspec

    value = {
        "text": choice.text,
        "token_ids": choice.token_ids,
        "finish_reason": choice.finish_reason,
        "stop_reason": choice.stop_reason,
        "usage": {"prompt_tokens": len(prepared.prompt), "completion_tokens": len(choice.token_ids)},
    }
    show(msgspec.json.encode(value).decode())

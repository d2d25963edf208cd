"""`nullblock serve MODEL`: the HTTP server, with upstream's flag names and defaults that a first user can run."""

from __future__ import annotations

import argparse
import logging
import sys
from typing import TYPE_CHECKING

from engine.cli.options import (
    DEFAULTS,
    Commands,
    add_capacity,
    add_engine,
    add_model,
    add_number,
    engine_options,
    engine_seed,
    natural,
    verb,
)
from engine.cli.output import say
from engine.errors import ExitCode, StartupError, UsageError

if TYPE_CHECKING:
    import socket

    from engine.llm import LLM
    from engine.options import EngineOptions
    from engine.server.params import Defaults

HIGHEST_PORT = 65535


def register(commands: Commands) -> None:
    parser = verb(
        commands,
        "serve",
        "serve a model over HTTP as pinned vLLM does",
        "nullblock serve .models/smollm2-135m-instruct --port 8000",
        execute,
    )
    add_model(parser)
    group = parser.add_argument_group("server")
    group.add_argument(
        "--host", default="127.0.0.1", metavar="HOST", help="address to listen on (default: %(default)s)"
    )
    group.add_argument(
        "--port", type=port, default=8000, metavar="N", help="port to listen on (default: %(default)s)"
    )
    group.add_argument(
        "--served-model-name",
        nargs="+",
        default=[],
        metavar="NAME",
        help="what the API calls the model; responses say the first one (default: MODEL)",
    )
    group.add_argument(
        "--api-key",
        nargs="+",
        default=[],
        metavar="KEY",
        help="keys of which requests below /v1 need one (default: none needed)",
    )
    group.add_argument(
        "--generation-config",
        default=DEFAULTS.generation_config,
        metavar="FOLDER|auto|vllm",
        help="whose generation_config.json gives defaults: a folder's (its max_new_tokens is also the most that a request "
        "gets), the model's (auto, the default), or nobody's (vllm)",
    )
    group.add_argument(
        "--override-generation-config",
        default="{}",
        metavar="JSON",
        help="defaults over those; max_new_tokens is also the most that a request gets",
    )
    group.add_argument(
        "--shutdown-timeout",
        type=natural,
        default=0,
        metavar="SECONDS",
        help="time for what is in flight after SIGTERM or SIGINT, before it is aborted (default: 0)",
    )
    add_number(group, "--seed", "of requests that bring none (default: 0)", kind=engine_seed, default=0)
    group.add_argument(
        "--disable-uvicorn-access-log", action="store_true", help="log no line for each request"
    )
    add_capacity(parser)
    add_engine(parser)


def execute(args: argparse.Namespace) -> int:
    import asyncio

    _log_to_stderr()
    options = _options(args)
    try:
        from engine.server import lifecycle
    except ModuleNotFoundError as error:
        raise StartupError(
            f"{error.name} is not installed", hint="`make model` installs what a server needs"
        ) from error
    held = lifecycle.bind(args.host, args.port)
    try:
        from engine.startup import load_llm

        llm = load_llm(options, say)
        try:
            asyncio.run(_life(args, llm, held))
        finally:
            llm.stop()
    finally:
        held.close()
    say("ended")
    lifecycle.exit_now(ExitCode.OK)


async def _life(args: argparse.Namespace, llm: LLM, held: socket.socket) -> None:
    from engine.server.app import create_app
    from engine.server.flights import Flights
    from engine.server.lifecycle import Life
    from engine.server.service import describe

    flights = Flights(llm)
    served = describe(args.model, tuple(args.served_model_name), llm.core.config, _defaults(llm))
    app = create_app(served, llm, flights, args.api_key, _cache_info(llm))
    life = Life(app, held, flights, args.shutdown_timeout, not args.disable_uvicorn_access_log)
    host, number = held.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    await life.run(lambda: say(f"serving {served.names[0]} on http://{shown}:{number} (API: /docs)"))


def _options(args: argparse.Namespace) -> EngineOptions:
    """The engine's options; --override-generation-config is checked here, before anything is loaded."""
    from engine.generation_config import check_override

    options = engine_options(
        argparse.Namespace(**{key: value for key, value in vars(args).items() if key != "served_model_name"})
    )
    check_override(options.override_generation_config)
    return options


def _defaults(llm: LLM) -> Defaults:
    from engine.server.params import defaults_from

    try:
        return defaults_from(llm.defaults, llm.ceiling)
    except ValueError as error:
        raise UsageError(str(error), hint="--override-generation-config can replace it") from error


def _cache_info(llm: LLM) -> dict[str, str]:
    config, plan = llm.core.config, llm.core.plan
    return {
        "block_size": str(config.block_size),
        "cache_dtype": "auto",
        "enable_prefix_caching": str(config.enable_prefix_caching),
        "num_gpu_blocks": str(plan.num_blocks),
        "num_gpu_blocks_override": str(config.num_blocks),
    }


def _log_to_stderr() -> None:
    """The server's log lines on stderr; stdout stays empty, since a server has no result."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s %(asctime)s %(message)s", "%m-%d %H:%M:%S"))
    for name in ("nullblock", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(logging.INFO)
        logger.propagate = False


def port(text: str) -> int:
    """A port number, 0 for any free one; for argparse."""
    number = natural(text)
    if number > HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"takes a port of at most {HIGHEST_PORT}, not {text!r}")
    return number

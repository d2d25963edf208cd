"""Options that verbs share, under upstream's names, and how they become EngineOptions."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any, Literal

from engine.errors import UsageError
from engine.options import DEFAULT_KV_BYTES, EngineOptions
from engine.policies import Policies, PolicyError, resolve

Commands = Any  # argparse keeps the type of add_subparsers' result private
Execute = Callable[[argparse.Namespace], int]
DTYPES = ("auto", "float32", "bfloat16", "float16")
DEFAULTS = EngineOptions(model="")
LARGEST = 2**63 - 1
MOST_SEED = 2**32 - 1
MOST_DIGITS = 1000  # of a number that is looked at at all


def verb(
    commands: Commands, name: str, help_: str, example: str, execute: Execute
) -> argparse.ArgumentParser:
    """A verb's parser, with its one-line help and an example in its own help page."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help_,
        description=help_,
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(execute=execute)
    return parser


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", metavar="MODEL", help="a folder with config.json and *.safetensors, or a hub name"
    )


def add_number(
    group: Any, flag: str, help_: str, *, kind: Callable[[str], int] | None = None, default: int | None = None
) -> None:
    """A flag that takes a whole number, of at least 1 unless `kind` says otherwise."""
    group.add_argument(flag, type=kind or positive, default=default, metavar="N", help=help_)


def add_capacity(parser: argparse.ArgumentParser) -> None:
    """What the start-up arithmetic depends on."""
    group = parser.add_argument_group("capacity")
    group.add_argument(
        "--dtype", choices=DTYPES, default="auto", help="of weights and cache (default: the weights' own)"
    )
    group.add_argument(
        "--max-model-len",
        type=length,
        default="auto",
        metavar="N|auto",
        help="tokens of prompt and output together (default: auto, what fits)",
    )
    add_number(group, "--block-size", "tokens a block (default: %(default)s)", default=DEFAULTS.block_size)
    add_number(
        group,
        "--num-gpu-blocks-override",
        "blocks of the pool, the null block included (default: what the memory holds)",
    )
    add_number(group, "--kv-cache-memory-bytes", f"bytes of the pool (default: {DEFAULT_KV_BYTES})")
    add_number(
        group,
        "--max-num-seqs",
        "requests that run at once (default: %(default)s)",
        default=DEFAULTS.max_num_seqs,
    )
    add_number(
        group,
        "--max-num-batched-tokens",
        "tokens a step (default: %(default)s)",
        default=DEFAULTS.max_num_batched_tokens,
    )
    add_number(
        group,
        "--long-prefill-token-threshold",
        "tokens of one prompt a step, 0 for no limit (default: 0)",
        kind=natural,
        default=0,
    )
    group.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a deliberate difference from the mirrored version, such as null-block-capacity=reserve (default: all pin)",
    )


def add_engine(parser: argparse.ArgumentParser) -> None:
    """What the engine depends on besides capacity."""
    group = parser.add_argument_group("engine")
    group.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="where the model runs (default: cpu)"
    )
    group.add_argument(
        "--enable-prefix-caching",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="find what was computed before (default: on)",
    )
    group.add_argument(
        "--enable-chunked-prefill",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="compute long prompts in parts (default: on)",
    )
    group.add_argument(
        "--scheduler-reserve-full-isl",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="admit a request only if all its known tokens fit (default: on)",
    )
    group.add_argument(
        "--scheduling-policy",
        choices=("fcfs", "priority"),
        default="fcfs",
        help="who is served first (default: fcfs)",
    )
    group.add_argument(
        "--plain",
        action="store_true",
        help="take the plain twin of every fast path, to find out which one is wrong",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object to stdout, for scripts")


def policies(args: argparse.Namespace) -> Policies:
    """The policies that --policy names. Raises UsageError."""
    chosen: dict[str, str] = {}
    for text in args.policy:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(
                f"--policy takes NAME=VALUE, not {text!r}", hint="such as null-block-capacity=reserve"
            )
        chosen[name] = value
    try:
        return resolve(chosen)
    except PolicyError as error:
        raise UsageError(str(error)) from error


def engine_options(args: argparse.Namespace) -> EngineOptions:
    """The options of a verb that has `model` and add_capacity's flags, and perhaps more. Raises UsageError."""
    given = vars(args)
    known = {name: given[name] for name in EngineOptions.__struct_fields__ if name in given}
    override = known.get("override_generation_config")
    if isinstance(override, str):
        known["override_generation_config"] = json_object("--override-generation-config", override)
    return EngineOptions(**known | {"policies": policies(args)})


def json_object(flag: str, text: str) -> dict[str, Any]:
    """The JSON object that a flag takes. Raises UsageError."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise UsageError(
            f"{flag} takes a JSON object, not {text!r}", hint="""such as '{"temperature": 0.5}'"""
        )
    return value


def positive(text: str) -> int:
    """A whole number from 1 to LARGEST, for argparse."""
    return _whole(text, 1)


def natural(text: str) -> int:
    """A whole number from 0 to LARGEST, for argparse."""
    return _whole(text, 0)


def length(text: str) -> int | Literal["auto"]:
    """A length in tokens or `auto`, which upstream also writes -1; for argparse."""
    if text in ("auto", "-1"):
        return "auto"
    return positive(text)


def engine_seed(text: str) -> int:
    """A seed of the engine, 0 to 2**32 - 1 as upstream's numpy takes it; for argparse."""
    return _whole(text, 0, MOST_SEED)


def request_seed(text: str) -> int:
    """A seed of a request: any whole number of 64 bits with a sign, as in upstream's API; for argparse."""
    return _whole(text, -LARGEST - 1)


def _whole(text: str, least: int, most: int = LARGEST) -> int:
    digits = text.removeprefix("-") if least < 0 else text
    value = int(text) if digits.isascii() and digits.isdecimal() and len(digits) <= MOST_DIGITS else None
    if value is None or value < least:
        raise argparse.ArgumentTypeError(f"takes a whole number of at least {least}, not {text[:40]!r}")
    if value > most:
        raise argparse.ArgumentTypeError(f"takes a whole number of at most {most}, not {text[:40]!r}")
    return value

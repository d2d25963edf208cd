"""Options that several verbs share, defined once so that they read the same everywhere."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

Commands = Any  # argparse keeps the type of add_subparsers' result private
Execute = Callable[[argparse.Namespace], int]


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


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object to stdout, for scripts")


def add_pin(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pin", default=None, metavar="NAME", help="a file of oracle/pins/ (default: vllm-0.27.1)"
    )


def add_policy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a deliberate difference of the engine, such as null-block-capacity=reserve (default: all pin)",
    )


def positive(text: str) -> int:
    """A whole number of at least 1, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"takes a whole number of at least 1, not {text!r}")
    return int(text)


def seconds(text: str) -> float:
    """A number of seconds above 0, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"takes a number of seconds above 0, not {text!r}")
    return value


def day(text: str) -> datetime.date:
    """A day as YYYY-MM-DD, for argparse."""
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"takes a day as YYYY-MM-DD, not {text!r}") from None


def some_path(text: str) -> Path:
    """A path, for argparse. The empty one, which a script's unset variable gives, would be the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("takes a path, and not nothing")
    return Path(text)

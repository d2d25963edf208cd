"""`parity`: parses the command line, finds the checkout, runs one verb and turns errors into exit codes.

A verb is a module of this package with `register(commands)` and `execute(args)`; what a verb needs is
imported inside `execute`, so that `parity --help` stays fast.
"""

from __future__ import annotations

import argparse
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from parity.cli import (
    check,
    coverage,
    fidelity,
    fuzz,
    oracle,
    promote,
    record,
    replay,
    run,
    schema,
    show,
    shrink,
    smoke,
)
from parity.cli.output import until_the_reader_leaves
from parity.errors import ExitCode, ParityError

VERBS = (run, check, show, smoke, fuzz, shrink, promote, replay, coverage, fidelity, record, oracle, schema)


class Parser(argparse.ArgumentParser):
    """An argument parser whose usage errors are one line and exit 64."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message} — see '{self.prog} --help'", file=sys.stderr)
        raise SystemExit(ExitCode.USAGE)


def terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    """SIGTERM as Ctrl-C: the oracle's process is ended and what was played stays."""
    raise KeyboardInterrupt


def build_parser() -> Parser:
    parser = Parser(
        prog="parity",
        description="Hold an engine against pinned vLLM, step by step, and decide every finding by a record.",
        epilog="exit codes: 0 all MATCH or COVERED; 1 findings; 2 nothing concluded; 64 usage; 70 our own fault",
    )
    commands = parser.add_subparsers(
        dest="verb", metavar="VERB", required=True, parser_class=Parser, title="verbs"
    )
    for verb in VERBS:
        verb.register(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    signal.signal(signal.SIGTERM, terminate)
    code = int(ExitCode.OK)  # what a verb ends with whose reader left, unless its verdict must survive that
    try:
        with until_the_reader_leaves():
            code = int(args.execute(args))
    except ParityError as error:
        print(f"parity: {error}", file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        print("parity: interrupted", file=sys.stderr)
        return int(ExitCode.INTERRUPTED)
    except Exception:  # noqa: BLE001 - a fault of our own: everything that helps to mend it, and its exit code
        traceback.print_exc()
        print(
            "parity: a fault of our own, shown above; nothing was concluded — please report it",
            file=sys.stderr,
        )
        return int(ExitCode.HARNESS)
    return code


if __name__ == "__main__":
    raise SystemExit(main())

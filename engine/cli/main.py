"""`nullblock`: parses the command line, runs one verb and turns errors into exit codes.

A verb is a module of this package with `register(commands)` and `execute(args)`; what a verb needs is imported
inside `execute`, so that `nullblock --help` stays fast and `nullblock plan` needs no torch.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from engine.cli import generate, plan, serve
from engine.errors import EngineError, ExitCode
from engine.threads import spin_briefly

VERBS = (generate, serve, plan)


class Parser(argparse.ArgumentParser):
    """An argument parser whose usage errors are one line and exit 64."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message} — see '{self.prog} --help'", file=sys.stderr)
        raise SystemExit(ExitCode.USAGE)


def build_parser() -> Parser:
    parser = Parser(
        prog="nullblock",
        description="A minimal paged-KV engine that mirrors pinned vLLM, oddities included.",
        epilog="exit codes: 0 done; 1 it cannot be done now; 64 usage; 70 our own fault",
    )
    commands = parser.add_subparsers(
        dest="verb", metavar="VERB", required=True, parser_class=Parser, title="verbs"
    )
    for verb in VERBS:
        verb.register(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    spin_briefly()
    try:
        return int(args.execute(args))
    except EngineError as error:
        print(f"nullblock: {error}", file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        print("nullblock: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.OK)
    except Exception:  # noqa: BLE001 - a fault of our own: everything that helps to mend it, and its exit code
        traceback.print_exc()
        print("nullblock: a fault of our own, shown above — please report it", file=sys.stderr)
        return int(ExitCode.OWN_FAULT)


if __name__ == "__main__":
    raise SystemExit(main())

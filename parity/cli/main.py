"""`parity`: parses the command line, finds the checkout, runs one verb and turns errors into exit codes.

A verb is a module of this package with `register(commands)` and `execute(args)`; what a verb needs is
imported inside `execute`, so that `parity --help` stays fast.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from parity.cli.output import make_steady, written_out
from parity.errors import ExitCode, ParityError
from parity.interrupts import ignore, take_over

VERBS = (
    "run",
    "check",
    "show",
    "fuzz",
    "shrink",
    "promote",
    "replay",
    "coverage",
    "fidelity",
    "record",
    "oracle",
    "schema",
)


class Parser(argparse.ArgumentParser):
    """An argument parser whose usage errors are one line and exit 64, each told by the verb that it is about."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """As argparse has it, but an argument that a verb does not know is that verb's error, and not its parent's."""
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return known, unknown

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message} — see '{self.prog} --help'", file=sys.stderr)
        raise SystemExit(ExitCode.USAGE)


def build_parser() -> Parser:
    parser = Parser(
        prog="parity",
        description="Hold an engine against pinned vLLM, step by step, and decide every finding by a record.",
        epilog="exit codes: 0 all MATCH or COVERED; 1 findings; 2 nothing concluded; 64 usage; 70 our own fault",
    )
    commands = parser.add_subparsers(
        dest="verb", metavar="VERB", required=True, parser_class=Parser, title="verbs"
    )
    for name in VERBS:
        importlib.import_module(f"parity.cli.{name}").register(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    take_over()
    make_steady()
    try:
        with written_out():
            args = build_parser().parse_args(argv)
            return int(args.execute(args))
    except ParityError as error:
        print(f"parity: {error}", file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        print("parity: interrupted", file=sys.stderr)
        return int(ExitCode.INTERRUPTED)
    except Exception:  # noqa: BLE001 - a fault of our own: everything that helps to mend it, and its exit code
        import traceback

        traceback.print_exc()
        print(
            "parity: a fault of our own, shown above; nothing was concluded — please report it",
            file=sys.stderr,
        )
        return int(ExitCode.HARNESS)
    finally:
        if argv is None:  # the program, which has nothing left to do
            ignore()


if __name__ == "__main__":
    raise SystemExit(main())

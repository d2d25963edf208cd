"""The command line's parser: the verbs, and usage errors that are one line.

A verb is a module of this package with `register(commands)` and `execute(args)`; what a verb needs is
imported inside `execute`, so that `parity --help` stays fast.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import Any, NoReturn

from parity.errors import ExitCode

VERBS = (
    "run",
    "check",
    "show",
    "smoke",
    "adopt",
    "next",
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

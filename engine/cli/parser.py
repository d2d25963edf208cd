"""The command line of `nullblock`: its verbs and how a usage error looks."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

from engine.cli import generate, plan, serve
from engine.errors import ExitCode

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
        epilog="exit codes: 0 done; 1 it cannot be done now; 64 usage; 70 our own fault; 130 interrupted",
    )
    commands = parser.add_subparsers(
        dest="verb", metavar="VERB", required=True, parser_class=Parser, title="verbs"
    )
    for verb in VERBS:
        verb.register(commands)
    return parser

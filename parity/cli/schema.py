"""`parity schema`: writes the JSON Schemas of scenarios and observations, or checks that they are fresh."""

from __future__ import annotations

import argparse

from parity.cli.options import Commands, verb
from parity.errors import ExitCode


def register(commands: Commands) -> None:
    parser = verb(
        commands,
        "schema",
        "write the JSON Schemas in parity/schemas, or check them",
        "parity schema --check",
        execute,
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a schema is not fresh")


def execute(args: argparse.Namespace) -> int:
    from parity.root import project_root
    from parity.schemas import FOLDER, documents, stale, write

    root = project_root()
    changed = stale(root) if args.check else write(root)
    for name in changed:
        print(f"{FOLDER}/{name}: {'not fresh' if args.check else 'written'}")
    if args.check and changed:
        print("run 'parity schema' and commit what it writes")
        return ExitCode.FINDINGS
    if not changed:
        print(f"{len(documents())} schemas are fresh")
    return ExitCode.OK

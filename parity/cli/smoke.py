"""`parity smoke`: whether what a subject claims is exercised, and whether its adapter or its engine is at fault."""

from __future__ import annotations

import argparse

from parity.cli.options import Commands, add_json, verb


def register(commands: Commands) -> None:
    parser = verb(
        commands,
        "smoke",
        "Try a subject without upstream: every capability and field that its file claims, on shipped golden lines,"
        " twice each, or one start of its server; exit 0 if the adapter is sound (what its engine does otherwise than"
        " upstream is shown), 1 where a claim does not hold, 2 where nothing could be concluded",
        "parity smoke my-engine.toml",
        execute,
    )
    parser.add_argument(
        "subject", metavar="SUBJECT", help="a file of subjects/ by name, or any subject's TOML file"
    )
    add_json(parser)


def execute(args: argparse.Namespace) -> int:
    import json

    from parity.report.progress import RunProgress
    from parity.root import project_root
    from parity.subjects.smoke_playing import smoke
    from parity.subjects.smoke_text import smoke_lines, smoke_object
    from parity.subjects.subject import find_subject, load_subject

    root = project_root()
    loaded = load_subject(find_subject(root, args.subject))
    done = smoke(root, loaded, RunProgress())
    if args.json:
        print(json.dumps(smoke_object(done)))
    else:
        print("\n".join(smoke_lines(done, args.subject)))
    return int(done.exit_code)

"""`parity promote`: a found scenario becomes one of the suite's, with a title to edit."""

from __future__ import annotations

import argparse
import sys

from parity.cli.options import Commands, add_json, verb


def register(commands: Commands) -> None:
    parser = verb(
        commands,
        "promote",
        "Write a found scenario into the suite, with a title to edit",
        "parity promote runs/found/f1-0123456789abcdef.yaml --family preemption",
        execute,
    )
    parser.add_argument(
        "file",
        metavar="FILE|LOG#F",
        help="a found file, a scenario's own, or a hunt's log and a fingerprint of it",
    )
    parser.add_argument(
        "--family", default=None, metavar="F", help="the family (default: what the finding looks like)"
    )
    parser.add_argument(
        "--name",
        default=None,
        metavar="SLUG",
        help="the file's name without .yaml (default: made from the finding)",
    )
    parser.add_argument(
        "--title", default=None, metavar="T", help="the title (default: the finding's shape in words)"
    )
    add_json(parser)


def execute(args: argparse.Namespace) -> int:
    import json

    from parity.errors import ExitCode
    from parity.fuzz.promotion import promote
    from parity.fuzz.source import given
    from parity.root import project_root

    root = project_root()
    source = given(root, args.file, {})
    done = promote(root, source, family=args.family, name=args.name, title=args.title)
    policies = "".join(f" --policy {name}={value}" for name, value in source.policies.items())
    command = f"parity run {done.id}{policies}"
    if args.json:
        print(json.dumps({"id": done.id, "file": done.path, "title": done.title, "next": command}))
    else:
        print(done.path)
    if source.found is not None and not source.found.attempts:
        print(f"it was not shrunk: `parity shrink {args.file}` may make it smaller", file=sys.stderr)
    print(f"title: {done.title}", file=sys.stderr)
    print(f"next: {'edit the title, then ' if args.title is None else ''}{command}", file=sys.stderr)
    return int(ExitCode.OK)

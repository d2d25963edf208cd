"""`parity next`: of what nobody decided yet, the group whose decision would clear the most scenarios."""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from parity.cli.options import Commands, add_json, some_path, verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parity.records.record import Record
    from parity.records.undecided import Open
    from parity.runlog import ScenarioLine
    from parity.subjects.subject import Loaded

MAX_GROUPS = 5  # that are listed


def register(commands: Commands) -> None:
    parser = verb(
        commands,
        "next",
        "Name the undecided group whose decision would clear the most scenarios",
        "parity next --subject toy.toml --from run.jsonl",
        execute,
    )
    parser.add_argument(
        "--subject",
        default=None,
        metavar="NAME|FILE",
        help="whose: a file of subjects/ by name, or any subject's TOML file (default: engine)",
    )
    parser.add_argument(
        "--from",
        dest="source",
        type=some_path,
        default=None,
        metavar="RUN",
        help="count what this finished run shows, what is NEW in it too",
    )
    add_json(parser)


def execute(args: argparse.Namespace) -> int:
    from parity.errors import ExitCode
    from parity.records.parse import load_records
    from parity.records.undecided import open_groups
    from parity.root import project_root
    from parity.subjects.subject import DEFAULT, find_subject, load_subject

    root = project_root()
    loaded = load_subject(find_subject(root, args.subject or DEFAULT))
    records = load_records(root, loaded.records)
    groups = open_groups(records, None if args.source is None else _lines(args.source, loaded, records))
    _print(args, groups)
    return int(ExitCode.OK)


def _lines(source: Path, loaded: Loaded, records: Sequence[Record]) -> list[ScenarioLine]:
    """What a run of this very subject found and is answered for, as the records decide it now."""
    import msgspec

    from parity.errors import UsageError
    from parity.records.again import decided_again
    from parity.runlog import read_run

    read = read_run(source)
    held = read.header.subject
    if read.header.against is not None or read.header.policies:
        raise UsageError(
            f"{source} is no run against upstream at the pin's own choices",
            hint="run again without --against and --policy",
        )
    if held.digest != loaded.digest:
        raise UsageError(
            f"{source} held {held.name}, and not as {loaded.path} says now",
            hint="name that subject with --subject, or run again",
        )
    lines = [line for line in read.scenarios if not line.is_ahead]
    today = datetime.datetime.now(tz=datetime.UTC).date()
    now = decided_again(lines, records, today, held.profile)
    return [msgspec.structs.replace(line, findings=now[line.id].decided) for line in lines]


def _print(args: argparse.Namespace, groups: Sequence[Open]) -> None:
    if args.json:
        import json

        from parity.records.undecided import summary

        found = [
            {**summary(group), "look": _look(args, group), "decide": _decide(args, group)} for group in groups
        ]
        print(json.dumps({"open": len(groups), "groups": found}))
        return
    if not groups:
        print("nothing is left to decide")
        return
    undecided = sum(group.record is not None for group in groups)
    new = len(groups) - undecided
    print(f"{undecided} undecided{f', {new} NEW' if new else ''}; the one that clears the most scenarios:")
    first = groups[0]
    print(_line(first))
    print(f"  example: {first.example}  at {first.at}")
    print(f"  look:    {_look(args, first)}")
    print(f"  decide:  {_decide(args, first)}")
    if first.record is not None:
        print("           (DECISION: mirror, diverge, owed or unsupported), or mend the subject")
    for group in groups[1:MAX_GROUPS]:
        print(_line(group))
    if len(groups) > MAX_GROUPS:
        print(f"and {len(groups) - MAX_GROUPS} more (--json has them all)")


def _line(group: Open) -> str:
    number = f"{'at least ' if group.at_least else ''}{group.clears}"
    if group.clears != group.scenarios:
        number += f" (shown by {group.scenarios})"
    until = "" if group.expires is None else f"  until {group.expires} ({group.owner})"
    return f"{group.record or 'NEW'}  {group.fingerprint}  {group.attribution}  clears {number}{until}"


def _look(args: argparse.Namespace, group: Open) -> str:
    if args.source is not None:
        return f"parity show {group.example} --run {args.source}"
    return f"parity show {group.example}{_flag(args)}"


def _decide(args: argparse.Namespace, group: Open) -> str:
    if group.record is not None:
        return f"parity record decide {group.record} DECISION{_flag(args)}"
    return f"parity record new --from '{args.source}#{group.example}' --finding {group.finding}{_flag(args)}"


def _flag(args: argparse.Namespace) -> str:
    return "" if args.subject is None else f" --subject {args.subject}"

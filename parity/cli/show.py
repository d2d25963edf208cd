"""`parity show`: both observations of one scenario side by side, the first difference marked."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from parity.cli.options import Commands, add_json, add_pin, add_policy, some_path, verb
from parity.cli.run import add_subject

if TYPE_CHECKING:
    from parity.observation import Observation
    from parity.scenario import Json
    from parity.subjects.lens import Lens

    Shown = tuple[Observation, Observation, Lens, tuple[Json, ...] | None]


def register(commands: Commands) -> None:
    parser = verb(
        commands,
        "show",
        "Print both observations of one scenario side by side",
        "parity show auto-fit/null-block",
        execute,
    )
    parser.add_argument("scenario", help="a scenario's id")
    parser.add_argument(
        "--run",
        type=some_path,
        default=None,
        metavar="FILE",
        help="show a finished run's observations, playing nothing",
    )
    parser.add_argument(
        "--debug",
        action="store_true",
        help="also print upstream's native output of each step, field by field (the empty ones with --json only)",
    )
    add_subject(parser)
    add_policy(parser)
    add_pin(parser)
    add_json(parser)


def execute(args: argparse.Namespace) -> int:
    from rich.console import Console

    from parity.errors import UsageError
    from parity.observation import plain
    from parity.outcomes import difference_of
    from parity.report.progress import counted
    from parity.report.side_by_side import native_lines, table
    from parity.report_json import show_object

    if args.run and (args.subject or args.against):
        raise UsageError("--run plays nothing, so --subject has no part in it", hint="leave one of them out")
    if args.run and args.debug:
        raise UsageError("--run plays nothing, so there is no native output", hint="leave one of them out")
    left, right, lens, native = _recorded(args) if args.run else _played(args)
    if args.json:
        json.dump(show_object(args.scenario, left, right, lens, native), sys.stdout)
        print()
        return 0
    oracle, subject = lens.shown(plain(left)), lens.shown(plain(right))
    difference = difference_of(left, right)
    path = None if difference is None else difference.path
    console = Console(highlight=False)
    console.print(args.scenario, style="bold")
    console.print(table(oracle, subject, path))
    if difference is None:
        console.print("no difference")
    else:
        console.print(
            f"first difference: {path}: oracle {json.dumps(difference.oracle)}, subject {json.dumps(difference.subject)}"
        )
    if native is not None:
        console.print(f"upstream's native output, {counted(len(native), 'step')}", style="bold")
        for line in native_lines(native):
            console.print(line, soft_wrap=True, markup=False)
    return 0


def _recorded(args: argparse.Namespace) -> Shown:
    import msgspec

    from parity.errors import InconclusiveError
    from parity.runlog import observations, read_run
    from parity.scenario import Level

    read = read_run(args.run)
    line = read.scenario(args.scenario)
    if line.oracle.failure or line.subject.failure:
        raise InconclusiveError(line.detail or "a side failed in that run")
    left, right = (observations(read.header, line, side)[0] for side in ("oracle", "subject"))
    return left, right, read.header.lens(msgspec.convert(line.level, Level)), None


def _played(args: argparse.Namespace) -> Shown:
    from parity.ask import Ask, parse_policies
    from parity.errors import InconclusiveError, UsageError
    from parity.report.progress import RunProgress
    from parity.root import project_root
    from parity.session import play_one
    from parity.suite import load_suite, select

    root = project_root()
    cases = select(load_suite(root), [args.scenario])
    if len(cases) != 1:
        raise UsageError(
            f"{args.scenario} names {len(cases)} scenarios", hint=f"show one of them, such as {cases[0].id}"
        )
    if args.debug and cases[0].scenario.level != "schedule":
        raise UsageError(
            f"--debug shows upstream's output of each step, and level {cases[0].scenario.level} has no steps",
            hint="leave --debug out, or show a scenario of level schedule",
        )
    ask = Ask(
        root,
        args.pin,
        (cases[0].id,),
        policies=parse_policies(args.policy),
        subject=args.subject,
        against=args.against,
        debug=args.debug,
    )
    left, right, lens = play_one(ask, cases[0], RunProgress())
    for plays in (left, right):
        if plays.failure is not None:
            raise InconclusiveError(plays.failure)
    return left.observations[0], right.observations[0], lens, left.native if args.debug else None

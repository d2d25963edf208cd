"""`parity check`: the whole suite, each scenario twice a side, every record judged. What `make parity` runs."""

from __future__ import annotations

import argparse

from parity.cli.options import Commands, add_json, add_pin, add_policy, positive, verb
from parity.cli.run import add_out

REPEAT = 2  # the least that shows a side which disagrees with itself


def register(commands: Commands) -> None:
    parser = verb(
        commands,
        "check",
        "Play the whole suite and judge every record; takes no filters",
        "parity check --json",
        execute,
    )
    parser.add_argument(
        "--repeat",
        type=positive,
        default=REPEAT,
        metavar="N",
        help=f"plays a side and scenario (default: {REPEAT}, so that a side that disagrees with itself shows)",
    )
    add_out(parser)
    add_policy(parser)
    add_pin(parser)
    add_json(parser)


def execute(args: argparse.Namespace) -> int:
    from parity.cli.running import play_and_report
    from parity.root import project_root
    from parity.session import Ask, parse_policies

    ask = Ask(
        root=project_root(),
        pin=args.pin,
        policies=parse_policies(args.policy),
        repeat=args.repeat,
        out=args.out,
    )
    return play_and_report(ask, as_json=args.json)

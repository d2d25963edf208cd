"""`parity check`: the whole suite on both sides, every record judged. What `make parity` runs."""

from __future__ import annotations

import argparse

from parity.cli.options import Commands, add_json, add_pin, add_policy, positive, verb
from parity.cli.run import add_out, add_subject

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
        help=f"plays a side and scenario of the levels plan and schedule (default: {REPEAT}, so that a side that disagrees with itself shows)",
    )
    depth = parser.add_mutually_exclusive_group()
    depth.add_argument(
        "--quick", action="store_true", help="the levels plan and schedule only: seconds, and no server"
    )
    depth.add_argument(
        "--full",
        action="store_true",
        help="also what is left out for its length; scripts twice, and more plays of what has several outcomes",
    )
    parser.add_argument(
        "--base",
        default=None,
        metavar="REF",
        help="hold the subject's file and records against those at the merge base with REF (default: origin/main, else main)",
    )
    add_subject(parser)
    add_out(parser)
    add_policy(parser)
    add_pin(parser)
    add_json(parser)


def execute(args: argparse.Namespace) -> int:
    from parity.ask import Ask, parse_policies
    from parity.cli.running import play_and_report
    from parity.errors import UsageError
    from parity.root import project_root
    from parity.subjects.ratchet_git import hold
    from parity.subjects.subject import DEFAULT, find_subject, load_subject

    ask = Ask(
        root=project_root(),
        pin=args.pin,
        policies=parse_policies(args.policy),
        repeat=args.repeat,
        serve_repeat=REPEAT if args.full else 1,
        depth="quick" if args.quick else "full" if args.full else "usual",
        subject=args.subject,
        against=args.against,
        out=args.out,
    )
    is_held = not (ask.against or ask.policies)  # what is compared then is nobody's claim
    if args.base is not None and not is_held:
        raise UsageError("--base holds a subject at the pin's own choices", hint="leave it out")
    loaded = load_subject(find_subject(ask.root, ask.subject or DEFAULT))
    ratchet = hold(ask.root, loaded, args.base) if is_held else None
    return play_and_report(ask, as_json=args.json, ratchet=ratchet)

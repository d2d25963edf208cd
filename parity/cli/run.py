"""`parity run`: plays some scenarios, or all, on both sides and says what the records say of them."""

from __future__ import annotations

import argparse

from parity.cli.options import Commands, add_json, add_pin, add_policy, positive, some_path, verb


def register(commands: Commands) -> None:
    parser = verb(
        commands,
        "run",
        "Play scenarios on the oracle and on a subject, and decide what is found",
        "parity run preemption/sole-request-outgrows-pool --json",
        execute,
    )
    parser.add_argument(
        "scenario",
        nargs="*",
        help="a scenario's id, or a sweep's or family's prefix (default: the whole suite)",
    )
    parser.add_argument("--family", default=None, help="only scenarios of this family, such as preemption")
    parser.add_argument(
        "--repeat", type=positive, default=1, metavar="N", help="plays a side and scenario (default: 1)"
    )
    parser.add_argument(
        "--outcomes",
        type=positive,
        default=None,
        metavar="N",
        help="plays a side of scenarios that say `outcomes` (default: what they say)",
    )
    parser.add_argument("--full", action="store_true", help="also the scenarios that only a full check plays")
    add_subject(parser)
    add_out(parser)
    add_policy(parser)
    add_pin(parser)
    add_json(parser)


def add_subject(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--subject",
        default=None,
        metavar="NAME|FILE",
        help="who is held against upstream: a file of subjects/ by name, or any subject's TOML file (default: engine)",
    )
    parser.add_argument(
        "--against",
        default=None,
        metavar="NAME|FILE",
        help="hold it against this subject in the place of upstream; no record is consulted then",
    )


def add_out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out",
        type=some_path,
        default=None,
        metavar="FILE",
        help="write the run file here, where no file may be yet (default: a new file in runs/, and run.jsonl leads to it)",
    )


def execute(args: argparse.Namespace) -> int:
    from parity.ask import Ask, parse_policies
    from parity.cli.running import play_and_report
    from parity.root import project_root

    ask = Ask(
        root=project_root(),
        pin=args.pin,
        ids=tuple(args.scenario),
        family=args.family,
        policies=parse_policies(args.policy),
        repeat=args.repeat,
        serve_repeat=args.repeat,
        outcomes=args.outcomes,
        depth="full" if args.full else "usual",
        subject=args.subject,
        against=args.against,
        out=args.out,
    )
    return play_and_report(ask, as_json=args.json)

"""`parity fuzz`: hunts for findings that no record has, and hands back the smallest scenario of each."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from parity.cli.options import Commands, add_json, add_pin, add_policy, positive, seconds, some_path, verb

if TYPE_CHECKING:
    from parity.scenario import Level

SECONDS = 60.0
_SHARD = re.compile(r"(\d+)/(\d+)\Z")
_ADDRESS = re.compile(r"(?:(?:tcp|tls|ws|wss)://)?[^\s/]+:(\d{1,5})\Z")


def register(commands: Commands) -> None:
    parser = verb(
        commands,
        "fuzz",
        "Hunt for new findings with scenarios drawn from a seed, and shrink what is found",
        "parity fuzz --level schedule --seed 7 --max-time 60",
        execute,
    )
    parser.add_argument(
        "--level",
        choices=("plan", "schedule", "serve"),
        default=None,
        help="what the scenarios observe (default: schedule)",
    )
    parser.add_argument("--seed", type=_whole, default=None, metavar="N", help="what is drawn (default: 0)")
    end = parser.add_mutually_exclusive_group()
    end.add_argument(
        "--max-time",
        type=seconds,
        default=None,
        metavar="S",
        help="begin no unit that would end later than this, start-up included (default: 60); the first unit of each"
        " process is always done, and what is found is then shrunk for a minute more at most",
    )
    end.add_argument(
        "--scenarios", type=positive, default=None, metavar="N", help="exactly so many, however long it takes"
    )
    parser.add_argument(
        "--jobs",
        type=positive,
        default=None,
        metavar="N",
        help="processes (default: one a core; at level serve 1)",
    )
    parser.add_argument(
        "--cluster",
        type=_address,
        default=None,
        metavar="ADDRESS",
        help="an existing Dask scheduler that the units are handed to",
    )
    parser.add_argument(
        "--shard",
        type=_shard,
        default=None,
        metavar="i/n",
        help="only every n-th unit, from the i-th: for n machines",
    )
    parser.add_argument(
        "--keep-going",
        action="store_true",
        help="go on after a find (default: end with the first unit that has one)",
    )
    parser.add_argument(
        "--merge",
        nargs="+",
        type=some_path,
        default=None,
        metavar="DIR",
        help="join finished hunts, playing nothing",
    )
    parser.add_argument(
        "--out",
        type=some_path,
        default=None,
        metavar="DIR",
        help="the hunt's folder (default: a new one in runs/hunts)",
    )
    add_policy(parser)
    add_pin(parser)
    add_json(parser)


def execute(args: argparse.Namespace) -> int:
    from parity.ask import parse_policies
    from parity.cli.hunting import Request, hunt, merge
    from parity.errors import UsageError
    from parity.fuzz.campaign import Plan
    from parity.fuzz.unit import SERVE_SIZE, SIZE

    if args.merge is not None:
        given = [name for name in _OF_A_HUNT if getattr(args, name)]
        if given:
            raise UsageError(f"--merge plays nothing, so --{given[0].replace('_', '-')} has no part in it")
        return merge(args.merge, as_json=args.json)
    if args.cluster is not None and args.jobs is not None:
        raise UsageError(
            "--jobs is for this machine, and --cluster has its own workers", hint="leave one out"
        )
    level: Level = args.level or "schedule"
    plan = Plan(
        level=level,
        seed=args.seed or 0,
        size=SERVE_SIZE if level == "serve" else SIZE,
        policies=parse_policies(args.policy),
        shard=args.shard or (1, 1),
        seconds=None if args.scenarios else args.max_time or SECONDS,
        scenarios=args.scenarios,
        keep_going=args.keep_going,
    )
    request = Request(plan, jobs=args.jobs, cluster=args.cluster, pin=args.pin, out=args.out)
    return hunt(request, as_json=args.json)


_OF_A_HUNT = (
    "level",
    "seed",
    "max_time",
    "scenarios",
    "jobs",
    "cluster",
    "shard",
    "keep_going",
    "policy",
    "pin",
    "out",
)


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"takes a whole number, not {text!r}")
    return int(text)


def _shard(text: str) -> tuple[int, int]:
    found = _SHARD.match(text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise argparse.ArgumentTypeError(f"takes i/n with 1 <= i <= n, such as 2/4, not {text!r}")
    return int(found[1]), int(found[2])


def _address(text: str) -> str:
    found = _ADDRESS.match(text)
    if found is None or not 0 < int(found[1]) < 1 << 16:
        raise argparse.ArgumentTypeError(f"takes an address such as tcp://HOST:8786, not {text!r}")
    return text

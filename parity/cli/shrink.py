"""`parity shrink`: the smallest scenario that still shows a finding, played live on both sides."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from parity.cli.options import Commands, add_json, add_pin, add_policy, positive, seconds, verb

if TYPE_CHECKING:
    from parity.fuzz.shrinking import Result

ATTEMPTS = 600  # as parity.fuzz.shrink has it, which --help need not import


def register(commands: Commands) -> None:
    parser = verb(
        commands,
        "shrink",
        "Make the scenario of a finding as small as it can be while it still shows",
        "parity shrink run.jsonl#preemption/twice --out small.yaml",
        execute,
    )
    parser.add_argument(
        "source",
        metavar="FILE|RUN#ID|LOG#F",
        help="a found file, a scenario's file, a scenario of a finished run, or a hunt's log and a fingerprint of it",
    )
    parser.add_argument(
        "--fingerprint",
        default=None,
        metavar="F",
        help="which finding to keep (default: the file's, else the worst that no record covers)",
    )
    parser.add_argument(
        "--attempts",
        type=positive,
        default=ATTEMPTS,
        metavar="N",
        help=f"smaller scenarios to play at most (default: {ATTEMPTS})",
    )
    parser.add_argument(
        "--max-time",
        type=seconds,
        default=None,
        metavar="S",
        help="seconds after which to stop (default: none)",
    )
    parser.add_argument(
        "--out", type=Path, default=None, metavar="FILE", help="also write it here, where no file may be yet"
    )
    add_policy(parser)
    add_pin(parser)
    add_json(parser)


def execute(args: argparse.Namespace) -> int:
    from contextlib import closing

    from parity.ask import parse_policies
    from parity.errors import ExitCode, UsageError
    from parity.fuzz.found import SYNTAX, create, found_text
    from parity.fuzz.live import Live
    from parity.fuzz.shrinking import Shrinking
    from parity.fuzz.source import given
    from parity.report.progress import RunProgress
    from parity.report.shrink_progress import ShrinkProgress
    from parity.root import project_root

    root = project_root()
    if args.out is not None and args.out.exists():
        raise UsageError(f"{args.out} exists already", hint="name another file with --out")
    if args.fingerprint is not None and not SYNTAX.fullmatch(args.fingerprint):
        raise UsageError(f"--fingerprint {args.fingerprint!r} is none", hint="such as f1:0123456789abcdef")
    source = given(root, args.source, parse_policies(args.policy))
    asked = [(source.document, source.policies)]
    with closing(Live(root, args.pin, asked, RunProgress())) as live:
        shrinking = Shrinking(live, source, args.fingerprint)
        with ShrinkProgress(args.attempts) as progress:
            done = shrinking.run(args.attempts, args.max_time, progress.tried)
    text = found_text(done.found)
    if args.out is not None:
        create(args.out, text)
    if args.json:
        print(json.dumps(_object(done, args.out)))
    else:
        print(text, end="")
    for line in _said(done, args.out):
        print(line, file=sys.stderr)
    return int(ExitCode.INTERRUPTED if done.shrunk.stopped == "interrupted" else ExitCode.OK)


def _object(done: Result, out: Path | None) -> dict[str, object]:
    """What `--json` prints."""
    import msgspec

    shown: dict[str, object] = msgspec.to_builtins(done.found)
    shown["attempts"] = done.shrunk.attempts
    return shown | {"stopped": done.shrunk.stopped, "out": None if out is None else str(out)}


def _said(done: Result, out: Path | None) -> list[str]:
    """What became of it, what ended it, and what to do next."""
    from parity.report.progress import counted
    from parity.report.shrink_progress import counts

    shrunk = done.shrunk
    lines = [f"{counts(done.before)} → {counts(shrunk.document)} in {counted(shrunk.attempts, 'attempt')}"]
    if shrunk.stopped == "interrupted":
        lines.append("interrupted: above is the smallest so far")
    elif shrunk.stopped is not None:
        option = "--attempts" if shrunk.stopped == "attempts" else "--max-time"
        lines.append(f"the {shrunk.stopped} ran out: a larger {option} may make it smaller")
    if done.found.attribution is None:
        lines.append(f"next: parity replay {'FILE, once it is in one with --out' if out is None else out}")
    elif out is None:
        lines.append("next: write it to a file with --out, then parity promote FILE")
    else:
        lines.append(f"next: parity promote {out}")
    return lines

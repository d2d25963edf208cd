"""`python -m oracle.driver`: JSON lines of docs/protocol.md on stdin and stdout.

`--door`, `--debug` and `--scheduler-cls` with `--path` say how it plays.
"""

from __future__ import annotations

import argparse
import os
import sys

from oracle.driver.environment import fix_environment, private_streams, quiet_signals, seed_hashes


def main() -> int:
    parser = _parser()
    args = parser.parse_args()
    if args.path and args.scheduler_cls is None:
        parser.error("--path is where --scheduler-cls is looked for")
    seed_hashes()
    quiet_signals()
    fix_environment()
    source, sink = private_streams()
    sys.path[:0] = args.path

    from oracle.driver.protocol import serve
    from oracle.driver.reach import measured_reach
    from oracle.driver.side import Upstream

    try:
        with measured_reach():
            serve(source, sink, Upstream(args.door, debug=args.debug, scheduler_cls=args.scheduler_cls))
    except BrokenPipeError:
        return 1  # whoever asked is gone, and so is the need for an answer
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="oracle.driver", description="Upstream behind JSON lines (docs/protocol.md)"
    )
    parser.add_argument(
        "--door",
        choices=("scheduler", "core"),
        default="scheduler",
        help="step upstream's scheduler by hand (default), or let its engine core do it",
    )
    parser.add_argument("--debug", action="store_true", help="add upstream's native output to each step")
    parser.add_argument(
        "--scheduler-cls",
        metavar="PKG.CLASS",
        type=_class_path,
        help="a class in the place of upstream's scheduler, loaded by upstream's setting of that name",
    )
    parser.add_argument(
        "--path",
        metavar="FOLDER",
        nargs="+",
        action="extend",
        default=[],
        type=_folder,
        help="folders to look for that class in, before all others",
    )
    return parser


def _class_path(text: str) -> str:
    if "." not in text.strip("."):
        raise argparse.ArgumentTypeError(f"{text!r} is no PKG.CLASS")
    return text


def _folder(text: str) -> str:
    if not os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"there is no folder {text}")
    return os.path.abspath(text)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m oracle.driver [--door scheduler|core] [--debug]`: JSON lines of docs/protocol.md on stdin and stdout."""

from __future__ import annotations

import argparse
import sys

from oracle.driver.environment import fix_environment, private_streams, quiet_signals, seed_hashes


def main() -> int:
    args = _parser().parse_args()
    seed_hashes()
    quiet_signals()
    fix_environment()
    source, sink = private_streams()

    from oracle.driver.protocol import serve
    from oracle.driver.reach import measured_reach
    from oracle.driver.side import Upstream

    try:
        with measured_reach():
            serve(source, sink, Upstream(args.door, debug=args.debug))
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
    return parser


if __name__ == "__main__":
    sys.exit(main())

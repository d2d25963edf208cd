"""`python -m oracle.driver`: JSON lines of docs/protocol.md on stdin and stdout."""

from __future__ import annotations

import sys

from oracle.driver.environment import fix_environment, private_streams, quiet_signals, seed_hashes


def main() -> int:
    seed_hashes()
    quiet_signals()
    fix_environment()
    source, sink = private_streams()

    from oracle.driver.protocol import serve
    from oracle.driver.reach import measured_reach
    from oracle.driver.side import Upstream

    try:
        with measured_reach():
            serve(source, sink, Upstream())
    except BrokenPipeError:
        return 1  # whoever asked is gone, and so is the need for an answer
    return 0


if __name__ == "__main__":
    sys.exit(main())

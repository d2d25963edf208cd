"""`parity`: finds the verb that the command line asks for, runs it and turns errors into exit codes.

Until `main` has taken over, Ctrl-C would end in a traceback: what is imported before is little.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from parity.errors import ExitCode, ParityError
from parity.interrupts import ignore, take_over


def main(argv: Sequence[str] | None = None) -> int:
    take_over()
    try:
        from parity.cli.output import make_steady, written_out
        from parity.cli.parser import build_parser

        make_steady()
        with written_out():
            args = build_parser().parse_args(argv)
            return int(args.execute(args))
    except ParityError as error:
        print(f"parity: {error}", file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        print("parity: interrupted", file=sys.stderr)
        return int(ExitCode.INTERRUPTED)
    except Exception:  # noqa: BLE001 - a fault of our own: everything that helps to mend it, and its exit code
        import traceback

        traceback.print_exc()
        print(
            "parity: a fault of our own, shown above; nothing was concluded — please report it",
            file=sys.stderr,
        )
        return int(ExitCode.HARNESS)
    finally:
        if argv is None:  # the program, which has nothing left to do
            ignore()


if __name__ == "__main__":
    raise SystemExit(main())

"""`nullblock`: takes signals over, parses the command line, runs one verb and turns errors into exit codes.

A verb is a module of this package with `register(commands)` and `execute(args)`; what a verb needs is imported
inside `execute`, so that `nullblock --help` stays fast and `nullblock plan` needs no torch. This module imports as
little as it can, because signals are its own only once `main` runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from engine.cli import signals


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb. Without `argv` the process is ours: its command line, its signals and its streams."""
    if argv is None:
        signals.end_at_once(starting="serve" in sys.argv[1:2])
        _usable_streams()
        # What it has to say of a model is said here, in one line.
        os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    from engine.cli.output import OutputLost, abandon_stdout
    from engine.cli.parser import build_parser
    from engine.errors import EngineError, ExitCode
    from engine.threads import spin_briefly

    spin_briefly()
    try:
        args = build_parser().parse_args(argv)
        return int(args.execute(args))
    except EngineError as error:
        if isinstance(error, OutputLost):
            abandon_stdout()
        print(f"nullblock: {error}", file=sys.stderr)
        return int(error.exit_code)
    except signals.Interrupted as interrupted:
        print(f"nullblock: {interrupted}", file=sys.stderr)
        return interrupted.exit_code
    except KeyboardInterrupt:
        print("nullblock: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        abandon_stdout()
        return int(ExitCode.OK)
    except Exception:  # noqa: BLE001 - a fault of our own: everything that helps to mend it, and its exit code
        import traceback

        traceback.print_exc()
        print("nullblock: a fault of our own, shown above — please report it", file=sys.stderr)
        return int(ExitCode.OWN_FAULT)


def _usable_streams() -> None:
    """Text that the terminal's encoding has no letters for is shown as escapes, and a closed stderr hears nothing.

    With a closed stderr Python would print errors to stdout, which is the result's.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - as long as the process
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    raise SystemExit(main())

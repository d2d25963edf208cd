"""`python -m parity.detection.nursery`, in the oracle's environment: one warm upstream, and a child of it for each mutant.

Upstream's import and first start are paid for once. A line on stdin names a mutant (null for none), a file with the
driver's questions, one for its answers and the seconds that it may take; a line on stdout says how it ended. The child
loads the whole driver anew, the mutant in force, and serves the questions as `python -m oracle.driver` does.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from oracle.driver.environment import fix_environment, private_streams, seed_hashes
from parity.detection.mutation import find_mutant
from parity.detection.planted import ROOT, plant, purge

FAILED = 70


def main() -> int:
    seed_hashes()
    fix_environment()
    source, sink = private_streams()

    from oracle.driver.side import Upstream

    Upstream().hello()
    sink.write(b'{"ready": true}\n')
    sink.flush()
    for line in source:
        sink.write(json.dumps({"ended": _bring_up(json.loads(line))}).encode() + b"\n")
        sink.flush()
    return 0


def _bring_up(asked: dict[str, Any]) -> str:
    """Play the questions in a child. `0` where it went through, else how it ended."""
    pid = os.fork()
    if pid == 0:
        code = FAILED
        try:
            os.setpgid(0, 0)
            _play(asked)
            code = 0
        finally:
            os._exit(code)
    until = time.monotonic() + float(asked["seconds"])
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return str(os.waitstatus_to_exitcode(status))
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hang"


def _play(asked: dict[str, Any]) -> None:
    mutant = None if asked["mutant"] is None else find_mutant(ROOT, asked["mutant"])
    if asked["mutant"] is not None and mutant is None:
        raise LookupError(f"no mutant {asked['mutant']}")
    tempfile.tempdir = str(Path(asked["answers"]).parent)  # whoever asked removes what the driver makes
    purge(["oracle"])
    if mutant is not None:
        plant([mutant])

    from oracle.driver.protocol import serve
    from oracle.driver.side import Upstream

    with open(asked["questions"], "rb") as source, open(asked["answers"], "wb") as sink:
        serve(source, sink, Upstream())


if __name__ == "__main__":
    sys.exit(main())

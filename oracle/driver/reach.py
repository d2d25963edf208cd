"""What this process executes of upstream's core, for `parity coverage`: lines and branches, told by coverage.py.

Only where REACH_VARIABLE names a folder; coverage.py is then on the path, as whoever asked put it there. The report is made
here and not by them, because lines and jumps are read from bytecode, and only this interpreter's is the one that ran.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oracle.driver.errors import DriverError

REACH_VARIABLE = "NULLBLOCK_ORACLE_REACH"
MEASURED = "v1/core"  # below upstream's package


@contextmanager
def measured_reach() -> Iterator[None]:
    """Around all that the process does, upstream's imports included.

    Writes coverage.py's own JSON into the folder, one file a process: empty from the beginning on, so that a process
    that did not come to its end shows. Raises DriverError where there is no upstream.
    """
    folder = os.environ.pop(REACH_VARIABLE, None)  # taken away: what upstream starts is not measured
    if folder is None:
        yield
        return

    from coverage import Coverage

    target = Path(folder) / f"{os.getpid()}.json"
    target.touch()
    coverage = Coverage(data_file=None, branch=True, config_file=False, source=[str(_measured_folder())])
    coverage.start()
    try:
        yield
    finally:
        coverage.stop()
        coverage.json_report(outfile=str(target))


def _measured_folder() -> Path:
    """Where upstream's core is, without importing it: an overlay's where there is one."""
    found = importlib.util.find_spec("vllm")
    if found is None or found.origin is None:
        raise DriverError("there is no upstream to measure")
    return Path(found.origin).parent / MEASURED

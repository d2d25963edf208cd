"""`make golden`, or `python -m parity.subjects.golden_record`: the golden lines anew, from the live oracle."""

from __future__ import annotations

import datetime
import hashlib
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from parity import wholefile
from parity.errors import OracleError, ParityError, UsageError
from parity.oracle_side import find_pin, greet, measure_oracle, start_oracle
from parity.report.progress import RunProgress, counted
from parity.root import project_root
from parity.runfile import shown
from parity.scenario import Case, Scenario
from parity.subjects.capabilities import missing
from parity.subjects.golden import FOLDER, FORMAT, LEVELS, Golden, Header, chosen, text
from parity.suite import VERSION, load_suite, select

DRIVER = "oracle/driver"


def main() -> int:
    try:
        root = project_root()
        header, lines = record(root, chosen(), RunProgress())
        for level in LEVELS:
            path = FOLDER / f"{level}.jsonl"
            wholefile.replace(path, text(header, level, lines))
            print(f"{shown(root, path)}: written")
        print(f"{counted(len(lines), 'golden line')} of {header.pin}")
    except ParityError as error:
        print(f"golden: {error}", file=sys.stderr)
        return int(error.exit_code)
    except OSError as error:
        print(f"golden: {error.filename}: {error.strerror}", file=sys.stderr)
        return int(UsageError.exit_code)
    return 0


def record(root: Path, ids: Sequence[str], progress: RunProgress) -> tuple[Header, list[Golden]]:
    """Play these scenarios on the live oracle. Raises UsageError, InconclusiveError."""
    cases = select(load_suite(root), ids)
    pin = find_pin(root, None)
    measured = measure_oracle(root, pin)
    with closing(start_oracle(root, pin)) as driver:
        with progress.starting(f"starting vLLM {measured.version}"):
            greet(driver, measured)
        lines = []
        for case in cases:
            scenario = _stepped(case)
            driver.begin(scenario)
            play = driver.finish()
            if play.observation is None:
                raise OracleError(f"{case.id}: {play.failure}")
            lines.append(Golden(scenario, play.observation, missing(case, ())))
    made = datetime.datetime.now(datetime.UTC).date().isoformat()
    return Header(FORMAT, pin.name, measured.version, driver_digest(root), made, VERSION), lines


def driver_digest(root: Path) -> str:
    """Digest of the code that reads upstream."""
    whole = hashlib.sha256()
    for path in sorted((root / DRIVER).glob("*.py")):
        whole.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return f"sha256:{whole.hexdigest()}"


def _stepped(case: Case) -> Scenario:
    if not isinstance(case.scenario, Scenario):
        raise UsageError(f"{case.id} is of level serve, which has no golden lines")
    return case.scenario


if __name__ == "__main__":
    raise SystemExit(main())

"""Plays scenarios on the oracle with coverage.py beside it, and brings back what it executed.

coverage.py belongs to our environment, while the oracle's is locked and verified. So the package alone is put on the path of this one
process; it has no dependencies, and its tracer written in Python serves an interpreter that its compiled one does not fit.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from oracle.driver.reach import REACH_VARIABLE
from oracle.interpreter import oracle_environment, oracle_python
from oracle.pins import Pin
from parity.errors import InconclusiveError, OracleError
from parity.oracle_side import oracle_faults
from parity.process_side import ProcessSide
from parity.reach.survey import File, Report, survey_all
from parity.report.progress import RunProgress, counted
from parity.scenario import Scenario

TOOL = "coverage"


def reach_of(root: Path, pin: Pin, scenarios: Sequence[Scenario], progress: RunProgress) -> list[File]:
    """What the oracle executes of upstream's core while it plays `scenarios`, once each.

    Raises OracleError where it or coverage.py is not there, InconclusiveError where a scenario could not be played.
    """
    package = _tool()
    with tempfile.TemporaryDirectory(prefix="nullblock-reach-") as scratch, oracle_faults():
        reports = Path(scratch, "reports")
        reports.mkdir()
        tool = Path(scratch, "tool")
        tool.mkdir()
        (tool / TOOL).symlink_to(package, target_is_directory=True)
        environment = _beside(oracle_environment(root, pin), tool) | {REACH_VARIABLE: str(reports)}
        command = [str(oracle_python(root, pin)), "-m", "oracle.driver"]
        with closing(ProcessSide("oracle", command, root, environment)) as side:
            with progress.starting(f"starting vLLM {pin.version}, measured"):
                side.hello()
            with progress.starting(f"playing {counted(len(scenarios), 'scenario')} on it"):
                _play(side, scenarios)
        with progress.starting("reading what it executed"):
            report = read_report(reports)
            return survey_all(report, {name: (root / name).read_text("utf-8") for name in report.files})


def _tool() -> Path:
    """The folder of coverage.py's package. Raises OracleError where it is not installed."""
    found = importlib.util.find_spec(TOOL)
    if found is None or not found.submodule_search_locations:
        raise OracleError(
            "coverage.py is not installed here", hint="run `make setup-test`, which installs it"
        )
    return Path(next(iter(found.submodule_search_locations)))


def _beside(environment: dict[str, str], tool: Path) -> dict[str, str]:
    """The environment with the tool's folder behind whatever is on the path already."""
    path = [environment["PYTHONPATH"]] if "PYTHONPATH" in environment else []
    return environment | {"PYTHONPATH": os.pathsep.join([*path, str(tool)])}


def _play(side: ProcessSide, scenarios: Sequence[Scenario]) -> None:
    for scenario in scenarios:
        side.begin(scenario)
        play = side.finish()
        if play.failure is not None:
            raise InconclusiveError(
                f"{scenario.id}: oracle: {play.failure}", hint=f"parity show {scenario.id}"
            )


def read_report(reports: Path) -> Report:
    """The one process's report. Raises InconclusiveError where there were more, or where it was killed.

    What a killed process had executed is lost, so its successor's report would tell too little.
    """
    files = list(reports.iterdir())
    if len(files) == 1:
        with contextlib.suppress(msgspec.DecodeError):
            return msgspec.json.decode(files[0].read_bytes(), type=Report)
    raise InconclusiveError(
        f"what {counted(len(files), 'process')} of the oracle executed is not known whole",
        hint="run it again on an idle machine",
    )

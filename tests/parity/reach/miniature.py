"""A miniature of upstream's core, executed for real under coverage.py by the driver's own hook."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec

from oracle.driver.reach import REACH_VARIABLE
from parity.reach.survey import File, Report, survey_all
from parity.root import CODE_ROOT

POOL = """
class Pool:
    def take(self, count, why=None):
        if count > 3:
            if why:
                return None
        for index in range(count):
            if index == 1 and why is None:
                continue
        try:
            return int("none")
        except ValueError:
            return 0
        except TypeError:
            return 1

    def never(self):
        return 2 if self else 3


def outer():
    def inner():
        return 4

    return inner
"""
MOVED = '''"""Everything is somewhere else."""


class Pool:
    """A pool."""

    def take(
        self,
        count,
        why=None,
    ):
        """Takes."""
        if (
            # a comment
            count
            > 3  # and another
        ):
            if why:
                return None
        for index in range(
            count,
        ):
            if (
                index == 1  # the second
                and why is None
            ):
                continue
        try:
            return int("none")
        except ValueError:
            return 0
        except TypeError:
            return 1

    def never(self):
        return 2 if self else 3


def outer():
    def inner():
        return 4

    return inner
'''


def measured(folder: Path, text: str, use: str) -> File:
    """What of `text`, as `vllm/v1/core/pool.py`, a process executes that imports it as `pool` and does `use`."""
    core = folder / "upstream" / "vllm" / "v1" / "core"
    core.mkdir(parents=True)
    for package in (core, core.parent, core.parent.parent):
        (package / "__init__.py").touch()
    (core / "pool.py").write_text(text)
    reports = folder / "reports"
    reports.mkdir()
    code = f"from oracle.driver.reach import measured_reach\nwith measured_reach():\n    from vllm.v1.core import pool\n    {use}"
    path = os.pathsep.join([str(folder / "upstream"), str(CODE_ROOT)])
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, REACH_VARIABLE: str(reports)},
    )
    (written,) = reports.iterdir()
    report = msgspec.json.decode(written.read_bytes(), type=Report)
    texts = {name: (folder / name).read_text() for name in report.files}
    (file,) = survey_all(report, texts)
    return file

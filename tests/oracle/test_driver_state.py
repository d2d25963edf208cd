"""What the driver refuses to read off upstream's scheduler, asked in upstream's own environment."""

from __future__ import annotations

import subprocess

import pytest

from tests.oracle.driver_process import ROOT, oracle_python

pytestmark = pytest.mark.oracle
ASK = """
from types import SimpleNamespace
from oracle.driver.errors import DriverError
from oracle.driver.state import waiting
request = SimpleNamespace(request_id="r1")
print([r.request_id for r in waiting(SimpleNamespace(skipped_waiting=[], waiting=[request]))])
try:
    waiting(SimpleNamespace(skipped_waiting=[request], waiting=[]))
except DriverError as error:
    print(error)
"""


def test_requests_that_upstream_sets_aside_are_a_fault_and_no_observation() -> None:
    done = subprocess.run([str(oracle_python()), "-c", ASK], cwd=ROOT, capture_output=True, text=True)

    assert done.stdout.splitlines()[-2:] == ["['r1']", "upstream set waiting requests aside: r1"], done.stderr

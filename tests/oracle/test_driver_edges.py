"""Edges of the driver's loop and of its reading that the other tests do not come to."""

from __future__ import annotations

import io
import json
import time

import pytest

from tests.oracle.driver_process import Driver, request
from tests.oracle.test_driver_protocol import PLAN, MadeUp


def test_seconds_are_those_of_the_play() -> None:
    from oracle.driver.protocol import serve

    sink = io.BytesIO()
    began = time.perf_counter()
    serve(io.BytesIO(json.dumps({"seq": 1, "op": "run", "scenario": PLAN}).encode() + b"\n"), sink, MadeUp())

    assert 0 <= json.loads(sink.getvalue())["seconds"] <= time.perf_counter() - began


@pytest.mark.oracle
def test_late_aborts_of_one_step_are_done_in_file_order() -> None:
    """Of 11 usable blocks the prompts hold 1 and 2; what is free after each abort tells which was first."""
    with Driver() as driver:
        played = driver.play(
            [request("r0", 8, 9), request("r1", 24, 9)],
            aborts=[{"id": name, "at": 2, "when": "before_update"} for name in ("r0", "r1")],
            num_blocks=12,
        )

    assert played.steps[2]["free"] == 11 - 3
    assert played.steps[2]["aborted_late"] == [["r0", 9], ["r1", 11]]

"""What the driver holds upstream to and what it collects of it, asked in upstream's own environment in one process."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.oracle.driver_process import ROOT, oracle_python

pytestmark = pytest.mark.oracle
ASK = """
import functools, json, logging
from types import SimpleNamespace
from oracle.driver import capture, config, state
from oracle.driver.door import open_scheduler
from oracle.driver.errors import DriverError
from oracle.driver.model import ModelFolders
from oracle.driver.side import WARM_UP
from vllm.v1.core.sched.scheduler import Scheduler

def fault(call):
    try:
        call()
    except DriverError as error:
        return str(error)

request = SimpleNamespace(request_id="r1")
found = {
    "waiting": [r.request_id for r in state.waiting(SimpleNamespace(skipped_waiting=[], waiting=[request]))],
    "aside": fault(lambda: state.waiting(SimpleNamespace(skipped_waiting=[request], waiting=[]))),
}
folder = ModelFolders().folder(WARM_UP.model, WARM_UP.dtype)
started = config.start(WARM_UP, folder, functools.partial(open_scheduler, log_stats=False))
settings = [
    *config._settings(started.vllm_config, WARM_UP, None, fitted=True),
    *config._scheduler_settings(started.door.scheduler, WARM_UP, Scheduler),
]
found["names"] = [name for name, _, _ in settings]
found["stands"] = fault(lambda: config._verify(iter(settings)))
found["spoiled"] = [
    fault(lambda: config._verify((name, asked, "other" if at == place else stands) for at, (name, asked, stands) in enumerate(settings)))
    for place in range(len(settings))
]
warnings = capture.Warnings()
for word in ("gamma", "alpha", "delta", "beta", "epsilon", "alpha"):
    warnings.emit(logging.makeLogRecord({"msg": word}))
found["warnings"] = warnings.kinds()
print("FOUND" + json.dumps(found))
"""
SETTINGS = """dtype, num_layers, num_kv_heads, head_size, vocab_size, max_model_len (as given), block_size, num_blocks,
enable_prefix_caching, max_num_seqs, max_num_batched_tokens, enable_chunked_prefill, long_prefill_token_threshold,
scheduler_reserve_full_isl, watermark, scheduling_policy, async_scheduling, scheduler_cls, use_v2_model_runner, scheduler class,
KV cache groups, max_num_seqs (scheduler), token budget (scheduler), policy (scheduler), block_size (scheduler),
enable_prefix_caching (manager)"""


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    done = subprocess.run([str(oracle_python()), "-c", ASK], cwd=ROOT, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND")]
    assert len(lines) == 1, done.stderr
    value: dict[str, Any] = json.loads(lines[0].removeprefix("FOUND"))
    return value


def test_requests_that_upstream_sets_aside_are_a_fault_and_no_observation(found: dict[str, Any]) -> None:
    assert found["waiting"] == ["r1"]
    assert found["aside"] == "upstream set waiting requests aside: r1"


def test_every_setting_that_a_scenario_has_is_read_back(found: dict[str, Any]) -> None:
    assert found["names"] == SETTINGS.replace("\n", " ").split(", ")
    assert found["stands"] is None


def test_a_setting_that_upstream_changed_is_a_fault_that_names_it(found: dict[str, Any]) -> None:
    assert [said.partition(" did not stand")[0] for said in found["spoiled"]] == [
        f"setting {name}" for name in found["names"]
    ]


def test_warnings_are_sorted_and_told_once(found: dict[str, Any]) -> None:
    words = ["alpha", "beta", "delta", "epsilon", "gamma"]
    assert found["warnings"] == [f"unrecognised: {word}" for word in words]

"""Real upstream's sampler and ours on the same 200 batches: tokens, seeded draws included, ranks and logprobs."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.oracle.driver_process import ROOT, oracle_python


@pytest.mark.oracle
def test_the_sampler_chooses_what_upstream_chooses() -> None:
    environment = os.environ | {
        "VLLM_USE_V2_MODEL_RUNNER": "0",
        "VLLM_HOST_IP": "127.0.0.1",
        "PYTHONPATH": str(ROOT),
    }

    done = subprocess.run(
        [str(oracle_python()), "-m", "tests.engine.core.upstream_sampler"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {"batches": 200, "different": []}

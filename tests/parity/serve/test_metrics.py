"""The few gauges of `/metrics`."""

from __future__ import annotations

import pytest

from parity.serve.metrics import Load, MetricsUnreadable, parse

TEXT = """# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a \\"b\\" {c}"} 2.0
vllm:num_requests_running{engine="1",model_name="m"} 1.0
vllm:num_requests_waiting{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="deferred"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.015
vllm:num_preemptions_total{engine="0",model_name="m"} 4.0
vllm:num_preemptions_created{engine="0",model_name="m"} 1.796069453163915e+09
vllm:request_success_bucket{le="+Inf"} 4.0
process_open_fds NaN
python_info 1.0 1395066363000
"""


def test_the_load_is_the_sum_over_engines() -> None:
    assert parse(TEXT) == Load(
        running=3,
        waiting=3,
        waiting_by_reason={"capacity": 2, "deferred": 1},
        cache_in_use=True,
        preemptions=4,
    )


@pytest.mark.parametrize(
    ("running", "waiting", "usage", "idle", "stuck"),
    [
        (0, 0, 0.0, True, False),
        (0, 1, 0.0, False, True),
        (1, 1, 0.1, False, False),
        (0, 0, 0.1, False, False),
    ],
)
def test_idle_and_stuck(running: int, waiting: int, usage: float, idle: bool, stuck: bool) -> None:
    load = Load(running, waiting, {}, usage > 0, 0)

    assert (load.idle, load.stuck) == (idle, stuck)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "does not tell vllm:num_requests_running"),
        (TEXT.replace("vllm:kv_cache_usage_perc", "other:usage"), "does not tell vllm:kv_cache_usage_perc"),
        (
            TEXT.replace("} 4.0\nvllm:num_preemptions_created", "} NaN\nx"),
            "does not tell vllm:num_preemptions_total",
        ),
        ("<html>\n", "no sample"),
        ("a b\n", "no number"),
    ],
)
def test_a_text_that_does_not_tell_it_is_refused(text: str, says: str) -> None:
    with pytest.raises(MetricsUnreadable, match=says):
        parse(text)

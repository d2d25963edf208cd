"""A rate comes from a complete run or not at all: one fault of any kind is an error in place of a number."""

from __future__ import annotations

import msgspec
import pytest

from engine.throughput import IncompleteRunError, RequestRun, require_complete_request_set

GOOD = RequestRun("a", "length", 64, expected=64)


def test_the_rate_of_a_complete_run_is_its_tokens_over_its_seconds() -> None:
    run = require_complete_request_set([GOOD, RequestRun("b", "stop", 36)], sent=2)

    assert (run.requests, run.generated, run.tokens_per_second(4.0)) == (2, 100, 25.0)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"error": "HTTP 500"}, "request b failed: HTTP 500"),
        ({"finish_reason": None}, "request b was silent"),
        ({"finish_reason": "abort"}, "request b ended by abort"),
        ({"finish_reason": "error"}, "request b ended by error"),
        ({"generated": 0, "expected": None}, "request b was silent"),
        ({"generated": 63}, "request b was truncated: 63 of 64 tokens"),
        ({"generated": 65}, "request b was truncated: 65 of 64 tokens"),
        ({"id": "a"}, "counted twice"),
    ],
)
def test_one_fault_is_enough(change: dict[str, object], says: str) -> None:
    faulty = msgspec.structs.replace(GOOD, **{"id": "b"} | change)

    with pytest.raises(IncompleteRunError, match=says):
        require_complete_request_set([GOOD, faulty], sent=2)


@pytest.mark.parametrize(("runs", "sent"), [([GOOD], 2), ([GOOD], 0), ([], 0), ([], 1)])
def test_every_request_that_was_sent_must_be_there_and_one_at_least(
    runs: list[RequestRun], sent: int
) -> None:
    with pytest.raises(IncompleteRunError, match="no rate"):
        require_complete_request_set(runs, sent)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
def test_no_time_no_rate(seconds: float) -> None:
    with pytest.raises(ValueError, match="cannot take"):
        require_complete_request_set([GOOD], sent=1).tokens_per_second(seconds)

"""What `/metrics` says of a server's load and of its cache: the few gauges that the level looks at, and nothing else.

The exposition format is Prometheus' text format; a value of several engines is their sum.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import msgspec

RUNNING = "vllm:num_requests_running"
WAITING = "vllm:num_requests_waiting"
BY_REASON = "vllm:num_requests_waiting_by_reason"
CACHE_USAGE = "vllm:kv_cache_usage_perc"
PREEMPTIONS = "vllm:num_preemptions_total"
CACHE_CONFIG = "vllm:cache_config_info"

_SAMPLE = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+-?\d+)?\s*"
)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


class MetricsUnreadable(ValueError):
    """The text is no exposition, or a gauge that the level needs is not in it."""


class Load(msgspec.Struct, frozen=True):
    """A server's load at one moment: requests, and how often a request was preempted since the start."""

    running: int
    waiting: int
    waiting_by_reason: dict[str, int]
    cache_in_use: bool
    preemptions: int

    @property
    def idle(self) -> bool:
        return self.running == 0 and self.waiting == 0 and not self.cache_in_use

    @property
    def stuck(self) -> bool:
        """Somebody waits while nobody runs."""
        return self.running == 0 and self.waiting > 0


def parse(text: str) -> Load:
    """The load that the text of `/metrics` tells. Raises MetricsUnreadable."""
    sums: dict[str, float] = {}
    reasons: dict[str, float] = {}
    for name, labels, value in _samples(text):
        if not math.isfinite(value):
            continue
        sums[name] = sums.get(name, 0.0) + value
        if name == BY_REASON:
            reason = labels.get("reason", "")
            reasons[reason] = reasons.get(reason, 0.0) + value
    missing = [name for name in (RUNNING, WAITING, CACHE_USAGE, PREEMPTIONS) if name not in sums]
    if missing:
        raise MetricsUnreadable(f"/metrics does not tell {', '.join(missing)}")
    return Load(
        running=int(sums[RUNNING]),
        waiting=int(sums[WAITING]),
        waiting_by_reason={reason: int(count) for reason, count in sorted(reasons.items())},
        cache_in_use=sums[CACHE_USAGE] > 0.0,
        preemptions=int(sums[PREEMPTIONS]),
    )


def cache_config(text: str) -> dict[str, str]:
    """What the text of `/metrics` says that the cache was configured as; empty where it does not say."""
    try:
        return next((labels for name, labels, _ in _samples(text) if name == CACHE_CONFIG), {})
    except MetricsUnreadable:
        return {}


def _samples(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        sample = _SAMPLE.fullmatch(line)
        if sample is None:
            raise MetricsUnreadable(f"/metrics has a line that is no sample: {line[:80]!r}")
        try:
            value = float(sample["value"])
        except ValueError as error:
            raise MetricsUnreadable(f"/metrics has a value that is no number: {line[:80]!r}") from error
        yield sample["name"], dict(_LABEL.findall(sample["labels"] or "")), value

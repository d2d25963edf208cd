"""GET /metrics: the engine's numbers under upstream's names, read when somebody asks for them.

Mirrors vllm/v1/metrics/loggers.py::PrometheusStatLogger for the metrics listed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from engine.server.backend import Backend
from engine.stats import CoreStats, Histogram

CONTENT_TYPE = CONTENT_TYPE_LATEST
NEVER = {"repetition": 0}  # upstream's reasons that a request cannot end by here


class EngineMetrics(Collector):
    """One model, one engine: every sample has the labels `engine` and `model_name`."""

    def __init__(self, backend: Backend, model_name: str, cache_info: Mapping[str, str]) -> None:
        self._backend = backend
        self._labels = {"engine": "0", "model_name": model_name}
        self._cache_info = dict(cache_info)

    def describe(self) -> list[Metric]:
        """Nothing ahead of time, so that registering does not ask the engine."""
        return []

    def collect(self) -> Iterator[Metric]:
        stats = self._backend.stats()
        yield from self._gauges(stats)
        yield from self._counters(stats)
        yield self._histogram(
            "vllm:time_to_first_token_seconds", "Seconds to the first token", stats.time_to_first_token
        )

    def _gauges(self, stats: CoreStats) -> Iterator[Metric]:
        yield self._gauge("vllm:num_requests_running", "Requests in the running list", stats.running)
        yield self._gauge("vllm:num_requests_waiting", "Requests in the waiting queue", stats.waiting)
        why = GaugeMetricFamily(
            "vllm:num_requests_waiting_by_reason",
            "Requests in the waiting queue, by what they wait for",
            labels=[*self._labels, "reason"],
        )
        for reason, count in stats.waiting_by_reason.items():
            why.add_metric([*self._labels.values(), reason], count)
        yield why
        yield self._gauge("vllm:kv_cache_usage_perc", "Share of blocks in use, 0 to 1", stats.kv_cache_usage)
        info = {**self._labels, **self._cache_info}
        cache = GaugeMetricFamily("vllm:cache_config_info", "The KV cache's configuration", labels=list(info))
        cache.add_metric(list(info.values()), 1)
        yield cache

    def _counters(self, stats: CoreStats) -> Iterator[Metric]:
        counted = {
            "vllm:num_preemptions": ("Preemptions", stats.preemptions),
            "vllm:prompt_tokens": ("Prompt tokens processed", stats.prompt_tokens),
            "vllm:prompt_tokens_cached": (
                "Prompt tokens that the prefix cache supplied",
                stats.cached_tokens,
            ),
            "vllm:generation_tokens": ("Tokens generated", stats.generation_tokens),
        }
        for name, (text, value) in counted.items():
            family = CounterMetricFamily(name, text, labels=list(self._labels))
            family.add_metric(list(self._labels.values()), value)
            yield family
        ended = CounterMetricFamily(
            "vllm:request_success",
            "Requests that ended, by reason",
            labels=[*self._labels, "finished_reason"],
        )
        for reason, count in {**stats.finished, **NEVER}.items():
            ended.add_metric([*self._labels.values(), reason], count)
        yield ended

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(name, text, labels=list(self._labels))
        family.add_metric(list(self._labels.values()), value)
        return family

    def _histogram(self, name: str, text: str, histogram: Histogram) -> Metric:
        family = HistogramMetricFamily(name, text, labels=list(self._labels))
        total = 0
        buckets: list[tuple[str, float]] = []
        for bound, count in zip((*map(str, histogram.bounds), "+Inf"), histogram.counts, strict=True):
            total += count
            buckets.append((bound, total))
        family.add_metric(list(self._labels.values()), buckets, histogram.sum)
        return family


def registry(metrics: EngineMetrics) -> CollectorRegistry:
    """A registry with the engine's metrics alone."""
    collected = CollectorRegistry()
    collected.register(metrics)
    return collected


def exposition(collected: CollectorRegistry) -> bytes:
    """The text that Prometheus reads."""
    return generate_latest(collected)

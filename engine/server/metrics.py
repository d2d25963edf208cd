"""GET /metrics: the engine's numbers under upstream's names, read when somebody asks for them.

Mirrors vllm/v1/metrics/loggers.py::PrometheusStatLogger for the metrics listed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from engine.server.backend import Backend
from engine.stats import CoreStats, Histogram

Kind = type[GaugeMetricFamily] | type[CounterMetricFamily]
CONTENT_TYPE = CONTENT_TYPE_LATEST
PLAIN = CONTENT_TYPE_PLAIN_0_0_4
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
        gauge = GaugeMetricFamily
        yield self._one(gauge, "vllm:num_requests_running", "Requests in the running list", stats.running)
        yield self._one(gauge, "vllm:num_requests_waiting", "Requests in the waiting queue", stats.waiting)
        yield self._by(
            gauge,
            "vllm:num_requests_waiting_by_reason",
            "Requests in the waiting queue, by what they wait for",
            "reason",
            stats.waiting_by_reason,
        )
        usage = "Share of blocks in use, 0 to 1"
        yield self._one(gauge, "vllm:kv_cache_usage_perc", usage, stats.kv_cache_usage)
        yield self._one(
            gauge, "vllm:cache_config_info", "The KV cache's configuration", 1, labels=self._cache_info
        )

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
            yield self._one(CounterMetricFamily, name, text, value)
        yield self._by(
            CounterMetricFamily,
            "vllm:request_success",
            "Requests that ended, by reason",
            "finished_reason",
            stats.finished | NEVER,
        )

    def _one(
        self, kind: Kind, name: str, text: str, value: float, *, labels: Mapping[str, str] | None = None
    ) -> Metric:
        """A metric of one sample, which has `labels` besides the usual ones."""
        every = {**self._labels, **(labels or {})}
        family = kind(name, text, labels=list(every))
        family.add_metric(list(every.values()), value)
        return family

    def _by(self, kind: Kind, name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
        """A metric with a sample for each value of one label more."""
        family = kind(name, text, labels=[*self._labels, label])
        for key, value in values.items():
            family.add_metric([*self._labels.values(), key], value)
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

"""/metrics, under upstream's names."""

from __future__ import annotations

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from engine.sampling import SamplingParams
from tests.engine.server.talk import Talk

# As upstream's /metrics has them at the pin, of those that this server has too.
UPSTREAM = {
    "vllm:num_requests_running": "gauge",
    "vllm:num_requests_waiting": "gauge",
    "vllm:num_requests_waiting_by_reason": "gauge",
    "vllm:kv_cache_usage_perc": "gauge",
    "vllm:cache_config_info": "gauge",
    "vllm:num_preemptions": "counter",
    "vllm:prompt_tokens": "counter",
    "vllm:prompt_tokens_cached": "counter",
    "vllm:generation_tokens": "counter",
    "vllm:request_success": "counter",
    "vllm:time_to_first_token_seconds": "histogram",
}


def numbers(talk: Talk) -> dict[str, float]:
    """Sample name with its labels but the model's and engine's, to value."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(talk.send("GET", "/metrics").text):
        for sample in family.samples:
            labels = {k: v for k, v in sample.labels.items() if k not in ("engine", "model_name")}
            found[f"{sample.name}{sorted(labels.items()) or ''}"] = sample.value
    return found


def test_names_types_and_labels_are_upstreams(talk: Talk) -> None:
    response = talk.send("GET", "/metrics")
    families = {family.name: family for family in text_string_to_metric_families(response.text)}

    assert {name: families[name].type for name in families} == UPSTREAM
    assert re.match(r"text/plain; version=[\d.]+; charset=utf-8", response.headers["content-type"])
    for family in families.values():
        for sample in family.samples:
            assert sample.labels["engine"] == "0"
            assert sample.labels["model_name"] == "tiny"


def test_counters_count_what_was_served(talk: Talk) -> None:
    before = numbers(talk)

    talk.complete(prompt=[200, 201, 202], max_tokens=5)

    after = numbers(talk)
    grown = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    assert grown["vllm:prompt_tokens_total"] == 3
    assert grown["vllm:generation_tokens_total"] == 5
    assert grown["vllm:request_success_total[('finished_reason', 'length')]"] == 1
    assert grown["vllm:time_to_first_token_seconds_count"] == 1
    assert after["vllm:num_requests_waiting_by_reason[('reason', 'capacity')]"] == 0


@pytest.mark.parametrize("spare", [0, 8])
def test_an_end_by_a_stop_string_is_counted_as_stop(talk: Talk, spare: int) -> None:
    """As measured upstream, with tokens to spare or with the stop string in the last one that there may be."""
    whole = talk.complete(max_tokens=12)["choices"][0]["text"]
    ended = talk.complete(max_tokens=12, stop=whole[6:8])
    at = ended["usage"]["completion_tokens"]
    assert (ended["choices"][0]["finish_reason"], at < 12) == ("stop", True)
    before = numbers(talk)

    talk.complete(max_tokens=at + spare, stop=whole[6:8])

    talk.assert_idle()
    after = numbers(talk)
    grown = {name: after[name] - before[name] for name in after if "request_success" in name}
    assert {name: value for name, value in grown.items() if value} == {
        "vllm:request_success_total[('finished_reason', 'stop')]": 1
    }


def test_a_client_that_leaves_is_not_counted_as_an_end(talk: Talk) -> None:
    """As measured upstream, whose reasons these are; one that nothing ended by is there with 0."""
    ended = "vllm:request_success_total[('finished_reason', '{}')]"
    reasons = [ended.format(reason) for reason in ("stop", "length", "abort", "error", "repetition")]
    before = numbers(talk)
    assert [name for name in before if "request_success_total" in name] == reasons

    prepared = talk.llm.prepare([100, 101], SamplingParams(n=40, ignore_eos=True), max_tokens=62)
    talk.llm.submit(prepared, lambda: None).abort()

    talk.assert_idle()
    after = numbers(talk)
    stop, length, *others = (after[name] - before[name] for name in reasons)
    assert length < 40, "two at once: nobody ends all of them before the client leaves"
    assert [stop, *others] == [0] * 4


def test_a_histogram_grows_towards_its_end(talk: Talk) -> None:
    talk.complete()
    found = numbers(talk)

    buckets = [
        value for name, value in found.items() if name.startswith("vllm:time_to_first_token_seconds_bucket")
    ]
    assert buckets == sorted(buckets)
    assert buckets[-1] == found["vllm:time_to_first_token_seconds_count"] > 0

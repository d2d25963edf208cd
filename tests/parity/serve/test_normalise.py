"""What of an answer is not compared; everything else comes through as it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from parity.serve import normalise
from parity.serve.normalise import Scrubber

MODEL = "/models/tiny-opt"


def scrub(value: Any) -> Any:
    return Scrubber(MODEL).json(value)


@pytest.mark.parametrize(
    ("raw", "canonical"),
    [
        ({"id": "cmpl-93ea1b0f2ef92d38"}, {"id": "cmpl-1"}),
        ({"id": "chatcmpl-6f1c2b3a-0d4e-4f5a-8b6c-7d8e9f0a1b2c"}, {"id": "chatcmpl-1"}),
        (
            {"tool_calls": [{"id": "chatcmpl-tool-8b71405f1c3a1f49"}]},
            {"tool_calls": [{"id": "chatcmpl-tool-1"}]},
        ),
        ({"permission": [{"id": "modelperm-8a6af72c7f6e72df"}]}, {"permission": [{"id": "modelperm-1"}]}),
        ({"created": 1796069596}, {"created": "*"}),
        ({"id": "resp_ba44505f3c9dbcff", "created_at": 1796072747}, {"id": "resp-1", "created_at": "*"}),
        ({"request_id": "generate-tokens-8eeeed2c4e290dd8"}, {"request_id": "generate-tokens-1"}),
        ({"system_fingerprint": "vllm-0.27.1-78c9bdd9"}, {"system_fingerprint": "*"}),
        ({"error": {"message": "no", "code": 400}}, {"error": {"message": "*", "code": 400}}),
        ({"data": [{"root": MODEL}]}, {"data": [{"root": "<model>"}]}),
    ],
)
def test_what_is_not_compared_is_replaced(raw: Any, canonical: Any) -> None:
    assert scrub(raw) == canonical


@pytest.mark.parametrize(
    "value",
    [
        {"id": "tiny-opt"},
        {"id": "cmpl-mine"},
        {"id": "cmpl-93EA1B0F2EF92D38"},
        {"id": "run-93ea1b0f2ef92d38"},
        {"id": 7},
        {"text": "cmpl-93ea1b0f2ef92d38"},
        {"created": "1796069596"},
        {"created": 1.5},
        {"created": True},
        {"created": None},
        {"system_fingerprint": None},
        {"error": {"message": "", "type": "x"}},
        {"error": {"message": None}},
        {"error": "text"},
        {"message": {"content": "hello"}},
        {"message": "of no error"},
        {"root": MODEL + "/other"},
        {"nobody": {"knows": [1, 2.5, None, True, "this"]}},
    ],
)
def test_anything_else_stays(value: Any) -> None:
    assert scrub(value) == value


def test_two_ids_stay_two_and_one_stays_one() -> None:
    one, other = "cmpl-0000000000000001", "cmpl-0000000000000002"

    assert scrub([{"id": one}, {"id": other}, {"id": one}]) == [
        {"id": "cmpl-1"},
        {"id": "cmpl-2"},
        {"id": "cmpl-1"},
    ]


def test_headers_that_a_client_relies_on() -> None:
    raw = {"date": "now", "server": "x", "allow": "POST", "content-type": "a/b", "location": "http://h:1/x?y"}

    assert normalise.headers(raw, "http://h:1") == {
        "content-type": "a/b",
        "allow": "POST",
        "location": "/x?y",
    }


def test_a_body_is_json_or_its_text() -> None:
    assert normalise.body(b'{"created": 5, "n": 1e400}', "/x", MODEL) == '{"created": *, "n": 1e400}'
    assert normalise.body(b'{"created": 5, "n": 1}', "/x", MODEL) == {"created": "*", "n": 1}
    assert normalise.body(b"", "/x", MODEL) == ""
    assert normalise.body(b"caf\xc3\xa9 \xff", "/x", MODEL) == "café \\xff"


def test_json_that_was_cut_off_is_normalised_as_a_text() -> None:
    text = b'{"id":"cmpl-93ea1b0f2ef92d38","created": 17,"root":"/models/tiny-opt","choi'

    assert normalise.body(text, "/x", MODEL) == '{"id":"cmpl-1","created": *,"root":"<model>","choi'


def test_metrics_are_four_numbers() -> None:
    text = (
        b"vllm:num_requests_running 1\nvllm:num_requests_waiting 2\nvllm:kv_cache_usage_perc 0\nvllm:num_preemptions_total 9\n"
        b'vllm:num_requests_waiting_by_reason{reason="capacity"} 2\nother 5\n'
    )

    assert normalise.body(text, "/metrics?x", MODEL) == {
        "running": 1,
        "waiting": 2,
        "waiting_by_reason": {"capacity": 2},
        "cache_in_use": False,
    }
    assert normalise.body(b"nothing\n", "/metrics", MODEL) == "nothing\n"


def test_of_aborted_choices_the_tokens_are_cut() -> None:
    aborted = {"index": 0, "text": "abc", "logprobs": None, "token_ids": [1], "finish_reason": "abort"}
    ended = {"index": 1, "text": "de", "logprobs": None, "token_ids": None, "finish_reason": "stop"}
    usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    body = json.loads(json.dumps({"choices": [aborted, ended], "usage": usage}))

    assert normalise.cut(body) == {
        "choices": [{**aborted, "text": "cut", "token_ids": "cut"}, ended],
        "usage": {"prompt_tokens": 3, "completion_tokens": "cut", "total_tokens": "cut"},
    }
    assert normalise.cut({"choices": [ended], "usage": usage}) == {"choices": [ended], "usage": usage}
    assert normalise.cut({"error": {}}) == {"error": {}}

"""What of an answer is not compared; everything else comes through as it is."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest

from parity.serve import normalise
from parity.serve.normalise import Scrubber

MODEL = "/models/tiny-opt"
NOW = int(time.time())


def body(content: bytes, path: str = "/x") -> Any:
    return normalise.body(content, path, Scrubber(MODEL))


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
        ({"created": NOW - 80_000}, {"created": "*"}),
        ({"id": "resp_ba44505f3c9dbcff", "created_at": NOW}, {"id": "resp-1", "created_at": "*"}),
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
        {"created": NOW - 90_000},
        {"created": NOW + 90_000},
        {"created": -1},
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
    assert body(b'{"created": %d, "n": 1e400}' % NOW, "/x") == '{"created": *, "n": 1e400}'
    assert body(b'{"created": %d, "n": 1}' % NOW, "/x") == {"created": "*", "n": 1}
    assert body(b"", "/x") == ""
    assert body(b"caf\xc3\xa9 \xff", "/x") == {"latin-1": "cafÃ© ÿ"}


def test_json_that_was_cut_off_is_normalised_as_a_text() -> None:
    text = b'{"id":"cmpl-93ea1b0f2ef92d38","created": %d,"root":"/models/tiny-opt","choi' % NOW

    assert body(text, "/x") == '{"id":"cmpl-1","created": *,"root":"<model>","choi'


def test_metrics_are_four_numbers() -> None:
    text = (
        b"vllm:num_requests_running 1\nvllm:num_requests_waiting 2\nvllm:kv_cache_usage_perc 0\nvllm:num_preemptions_total 9\n"
        b'vllm:num_requests_waiting_by_reason{reason="capacity"} 2\nother 5\n'
    )

    assert body(text, "/metrics?x") == {
        "running": 1,
        "waiting": 2,
        "waiting_by_reason": {"capacity": 2},
        "cache_in_use": False,
    }
    assert body(b"nothing\n", "/metrics") == "nothing\n"


def test_of_aborted_choices_the_tokens_are_cut() -> None:
    aborted = {"index": 0, "text": "abc", "logprobs": None, "token_ids": [1], "finish_reason": "abort"}
    ended = {"index": 1, "text": "de", "logprobs": None, "token_ids": None, "finish_reason": "stop"}
    usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    aborted_body = json.loads(json.dumps({"choices": [aborted, ended], "usage": usage}))

    assert normalise.cut(aborted_body) == {
        "choices": [{**aborted, "text": "cut", "token_ids": "cut"}, ended],
        "usage": {"prompt_tokens": 3, "completion_tokens": "cut", "total_tokens": "cut"},
    }
    assert normalise.cut({"choices": [ended], "usage": usage}) == {"choices": [ended], "usage": usage}
    assert normalise.cut({"error": {}}) == {"error": {}}
    without = {"choices": [aborted]}
    assert normalise.cut(without) == {"choices": [{**aborted, "text": "cut", "token_ids": "cut"}]}
    assert normalise.cut({**without, "usage": None})["usage"] is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"Not Found", b'"Not Found"'),
        (b"", b'""'),
        (b'"x"', b'{"json": "x"}'),
        (b'{"json": {"json": "x"}}', b'{"json": "x"}'),
        (b"\xff", b"\\xff"),
        (b"\xff", b'{"latin-1": "\xc3\xbf"}'),
        (b'{"x": 1}', b'{"x": 2, "x": 1}'),
        (b'{"x": 0.0}', b'{"x": -0.0}'),
        (b'{"x": -0.0}', b'{"x": "-0.0"}'),
        (b'{"x": 0}', b'{"x": -0}'),
        (b"[" * 101 + b"]" * 101, b'"' + b"[" * 101 + b"]" * 101 + b'"'),
        (b'{"id": "cmpl-0123456789abcdef"}', b'{"id": "cmpl_0123456789abcdef"}'),
        (b'{"id": "resp_0123456789abcdef"}', b'{"id": "resp-0123456789abcdef"}'),
        (b'{"id": "cmpl-0123456789abcdef"}', b'{"id": "cmpl-1"}'),
        (b'{"id": "cmpl-1"}', b'{"id": "= cmpl-1"}'),
        (b'{"created": %d}' % NOW, b'{"created": "*"}'),
        (b'{"root": "/models/tiny-opt"}', b'{"root": "<model>"}'),
        (b'{"root": "= <model>"}', b'{"root": "<model>"}'),
    ],
)
def test_bodies_that_differ_read_differently(one: bytes, other: bytes) -> None:
    assert msgspec.json.encode(body(one)) != msgspec.json.encode(body(other))


def test_null_is_a_body() -> None:
    assert body(b"null") == {"json": None}


@pytest.mark.parametrize("levels", [900, 100_000])
def test_json_that_nobody_can_read_is_a_text(levels: int) -> None:
    content = b"[" * levels + b"]" * levels

    assert body(content) == content.decode()


def test_a_hundred_levels_are_read() -> None:
    assert isinstance(body(b"[" * 100 + b"1" + b"]" * 100), list)
    assert isinstance(body(b"[" * 101 + b"]" * 101), str)


def test_a_log_probability_of_minus_zero_is_zero() -> None:
    value = {"logprobs": {"token_logprobs": [-0.0], "top_logprobs": [{"a": -0.0}]}}

    assert scrub(value) == value


def test_a_key_that_stands_twice_is_told() -> None:
    assert body(b'{"a": {"x": 1, "x": 2}}') == {"oddity": ["key twice: x"], "json": {"a": {"x": 2}}}

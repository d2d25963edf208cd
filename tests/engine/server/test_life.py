"""The life of `nullblock serve`: what it answers while a request is stuck, and how it ends.

NULLBLOCK_SHUTDOWNS=50 repeats the shutdown with a stuck request that often (default 3).
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.engine.server.running import STUCK, Call, Leaver, Running, failing, running, starting
from tests.engine.server.talk import frames

SHUTDOWNS = int(os.environ.get("NULLBLOCK_SHUTDOWNS", "3"))
WEDGE = ("--num-gpu-blocks-override", "4", "--block-size", "16", "--max-model-len", "auto")


@pytest.fixture(scope="module")
def wedge(tiny_opt: Path) -> Iterator[Running]:
    """Four blocks of 16: a request of 8 prompt tokens gets 41 tokens and then waits for ever."""
    with running(tiny_opt, *WEDGE) as server:
        yield server


def test_start_up_says_what_upstream_says_and_warns(wedge: Running) -> None:
    log = "".join(wedge.log)

    assert "Auto-fit max_model_len: reduced from 2048 to 64" in log
    assert "KV cache size: 64 tokens" in log
    assert "Maximum concurrency for 64 tokens per request: 1.00x" in log
    assert "records/auto-fit/null-block-counted.md" in log


def test_while_a_request_is_stuck_the_server_answers_and_says_why(wedge: Running) -> None:
    stuck = Leaver(wedge.base, STUCK)
    wedge.wait_stuck()

    with wedge.client() as client:
        assert client.get("/health").status_code == 200
        assert client.get("/v1/models").json()["data"][0]["max_model_len"] == 64
    assert wedge.metric("vllm:num_requests_waiting") == 1
    # Preempted, and counted with its next token only, as upstream counts: here none ever comes.
    assert wedge.metric("vllm:num_preemptions_total") == 0
    body = {"prompt": [5], "max_tokens": 2, "ignore_eos": True}
    small = Call(lambda: httpx.post(f"{wedge.base}/v1/completions", json=body, timeout=20))
    wedge.wait_stuck(2)
    assert small.outcome is None

    stuck.leave()

    assert small.response().json()["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_is_aborted_and_its_blocks_come_back(wedge: Running, stream: bool) -> None:
    client = Leaver(wedge.base, STUCK | {"stream": stream})
    wedge.wait_stuck()

    client.leave()

    wedge.wait_for(lambda: wedge.metric("vllm:num_requests_waiting") == 0)
    assert wedge.metric("vllm:kv_cache_usage_perc") == 0
    body = {"prompt": [5], "max_tokens": 2, "ignore_eos": True}
    answer = httpx.post(f"{wedge.base}/v1/completions", json=body, timeout=20)
    assert answer.json()["usage"]["completion_tokens"] == 2


def test_a_client_that_leaves_in_the_middle_of_its_stream(wedge: Running) -> None:
    body = STUCK | {"stream": True}
    with wedge.client() as client, client.stream("POST", "/v1/completions", json=body) as response:
        next(response.iter_bytes())

    wedge.wait_for(lambda: wedge.metric("vllm:kv_cache_usage_perc") == 0)
    wedge.wait_for(lambda: wedge.metric("vllm:num_requests_waiting") == 0)


@pytest.mark.parametrize("repetition", range(SHUTDOWNS))
def test_sigterm_with_a_stuck_request(tiny_opt: Path, repetition: int) -> None:
    number = (signal.SIGTERM, signal.SIGINT)[repetition % 2]
    with running(tiny_opt, *WEDGE) as server:
        stuck = Call(lambda: httpx.post(f"{server.base}/v1/completions", json=STUCK, timeout=60))
        server.wait_stuck()
        assert httpx.get(f"{server.base}/health").status_code == 200

        server.signal(number)

        assert server.wait_exit(10) == 0
        answer = stuck.response().json()
        assert answer["choices"][0]["finish_reason"] == "abort"
        assert answer["usage"] == {"prompt_tokens": 8, "total_tokens": 49, "completion_tokens": 41, "prompt_tokens_details": None}  # fmt: skip


def test_sigterm_answers_streams_and_what_never_got_a_token(tiny_opt: Path) -> None:
    with running(tiny_opt, *WEDGE) as server:
        url = f"{server.base}/v1/completions"
        streamed = Call(lambda: httpx.post(url, json=STUCK | {"stream": True}, timeout=60))
        server.wait_stuck()
        behind = Call(lambda: httpx.post(url, json={"prompt": [5], "n": 2, "seed": 1}, timeout=60))
        behind_stream = Call(lambda: httpx.post(url, json={"prompt": [5], "stream": True}, timeout=60))
        server.wait_stuck(4)

        server.signal()

        assert server.wait_exit(10) == 0
        for call in (streamed, behind_stream):
            last, done = frames(call.response().text)[-2:]
            assert (last["choices"][0]["finish_reason"], done) == ("abort", "[DONE]")
        assert [c["finish_reason"] for c in behind.response().json()["choices"]] == ["abort", "abort"]


def test_a_long_header_is_read(wedge: Running) -> None:
    """Upstream reads one of 200 kB; the HTTP library's own limit is 64."""
    with wedge.client() as client:
        assert client.get("/health", headers={"x-long": "a" * 200_000}).status_code == 200


def test_half_a_body_is_answered_at_the_end(tiny_opt: Path) -> None:
    with running(tiny_opt, *WEDGE) as server:
        host, _, number = server.base.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(number)), 10) as half:
            head = "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
            half.sendall(f"{head}Content-Length: 100\r\n\r\n".encode() + b'{"prompt":')
            time.sleep(0.3)
            server.signal()
            answer = b"".join(iter(lambda: half.recv(65536), b""))

        assert server.wait_exit(10) == 0
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["type"] == "ServiceUnavailableError"


def test_idle_it_ends_within_seconds(tiny_opt: Path) -> None:
    with running(tiny_opt, *WEDGE) as server:
        started = time.monotonic()
        server.signal()

        assert server.wait_exit(10) == 0
        assert time.monotonic() - started < 8


def test_a_signal_while_the_model_loads_ends_it_as_well(tiny_opt: Path) -> None:
    with starting(tiny_opt, *WEDGE) as server:
        server.wait_for(lambda: any("loading" in line for line in server.log))
        server.signal()

        assert server.wait_exit(10) == 0


def test_a_shutdown_timeout_lets_requests_land_and_takes_no_new_ones(tiny_opt: Path) -> None:
    with running(tiny_opt, "--num-gpu-blocks-override", "200", "--shutdown-timeout", "30") as server:
        url = f"{server.base}/v1/completions"
        body = {"prompt": [5] * 8, "max_tokens": 1500, "ignore_eos": True}
        landing = Call(lambda: httpx.post(url, json=body, timeout=60))
        server.wait_for(lambda: server.metric("vllm:num_requests_running") == 1)

        server.signal()
        server.wait_for(lambda: any("shutting down" in line for line in server.log))
        late = httpx.post(url, json={"prompt": [5], "max_tokens": 1}, timeout=20)

        assert (late.status_code, late.json()["error"]["type"]) == (503, "ServiceUnavailableError")
        assert landing.response(60).json()["choices"][0]["finish_reason"] == "length"
        assert server.wait_exit(20) == 0


def test_a_shutdown_timeout_aborts_what_does_not_land(tiny_opt: Path) -> None:
    with running(tiny_opt, *WEDGE, "--shutdown-timeout", "1") as server:
        stuck = Call(lambda: httpx.post(f"{server.base}/v1/completions", json=STUCK, timeout=60))
        server.wait_stuck()

        server.signal()

        assert server.wait_exit(15) == 0
        assert stuck.response().json()["choices"][0]["finish_reason"] == "abort"


def test_a_second_signal_ends_at_once(tiny_opt: Path) -> None:
    with running(tiny_opt, *WEDGE, "--shutdown-timeout", "60") as server:
        Call(lambda: httpx.post(f"{server.base}/v1/completions", json=STUCK, timeout=60))
        server.wait_stuck()
        server.signal()
        server.wait_for(lambda: any("shutting down" in line for line in server.log))
        started = time.monotonic()

        server.signal()

        assert server.wait_exit(10) == 128 + signal.SIGTERM
        assert time.monotonic() - started < 3


def test_a_client_that_never_reads_does_not_hold_up_the_end(tiny_opt: Path) -> None:
    with running(tiny_opt, "--num-gpu-blocks-override", "200") as server:
        body = {"prompt": [5] * 8, "max_tokens": 1500, "ignore_eos": True, "stream": True, "logprobs": 20}
        with server.client() as client, client.stream("POST", "/v1/completions", json=body):
            server.wait_for(lambda: server.metric("vllm:generation_tokens_total") > 100)
            server.signal()

            assert server.wait_exit(15) == 0


def test_a_port_in_use_is_one_line_and_exit_1(wedge: Running) -> None:
    port = wedge.base.rpartition(":")[2]

    code, text = failing("no-such-model", "--port", port)

    assert code == 1
    assert text.startswith(f"nullblock: port {port} of 127.0.0.1 is in use")
    assert text.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "needle"),
    [
        (("no/such/model",), "no/such/model"),
        (("MODEL", "--port", "70000"), "--port"),
        (("MODEL", "--host", "no such host"), "--host"),
        (("MODEL", "--num-gpu-blocks-override", "2", "--max-model-len", "64"), "64 tokens"),
        (("MODEL", "--max-model-len", "99999999"), "--max-model-len"),
        (("MODEL", "--max-num-batched-tokens", "4", "--max-num-seqs", "16"), "--max-num-batched-tokens"),
        (("MODEL", "--block-size", "0"), "--block-size"),
        (("MODEL", "--dtype", "int8"), "--dtype"),
        (("MODEL", "--override-generation-config", "{"), "--override-generation-config"),
        (("MODEL", "--override-generation-config", '{"temperature": "x"}'), "temperature"),
        (("MODEL", "--override-generation-config", '{"temprature": 1}'), "temprature"),
        (("MODEL", "--policy", "null-block-capacity=no"), "null-block-capacity"),
        (("MODEL", "--shutdown-timeout", "-1"), "--shutdown-timeout"),
        (("MODEL", "--no-such-flag"), "--no-such-flag"),
    ],
)
def test_an_impossible_start_is_one_line_and_exit_64(
    tiny_opt: Path, arguments: tuple[str, ...], needle: str
) -> None:
    given = [str(tiny_opt) if word == "MODEL" else word for word in arguments]

    code, text = failing("--port", "0", *given)

    assert code == 64, text
    assert needle in text
    lines = [line for line in text.splitlines() if line.startswith("nullblock")]
    assert len(lines) == 1, text
    assert "Traceback" not in text

"""`nullblock serve` before it serves: signals from the first moment, values that no request could have, one port."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import httpx
import pytest

from engine.errors import StartupError
from engine.server.lifecycle import bind
from tests.engine.server.running import failing, running, starting


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("delay", [0.15, 0.4, 0.8, 1.6])
def test_a_signal_before_it_serves_ends_it_with_0_and_a_line(
    tiny_opt: Path, number: signal.Signals, delay: float
) -> None:
    with starting(tiny_opt, "--num-gpu-blocks-override", "8") as server:
        time.sleep(delay)
        server.signal(number)

        assert server.wait_exit(10) == 0
        server.wait_for(lambda: bool(server.log))
        assert server.log[-1] == f"nullblock: {number.name} while starting: ended\n"
        assert "Traceback" not in "".join(server.log)


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ('{"temperature": -1}', "temperature must be in [0, 2]"),
        ('{"temperature": 5}', "temperature must be in [0, 2]"),
        ('{"top_p": 0}', "top_p must be in (0, 1]"),
        ('{"top_k": -5}', "top_k must be"),
        ('{"min_p": 7}', "min_p must be in [0, 1]"),
        ('{"repetition_penalty": NaN}', "repetition_penalty must be a finite number"),
        ('{"max_new_tokens": 0}', "max_new_tokens must be at least 1"),
        ('{"max_new_tokens": -3}', "max_new_tokens must be at least 1"),
        ('{"eos_token_id": "x"}', "a token id or a list of them"),
        ('{"eos": 1}', "it has eos_token_id, max_new_tokens"),
    ],
)
def test_a_default_that_every_request_would_fail_on_is_refused(override: str, says: str) -> None:
    """Upstream starts with each of them and refuses every request with 400 (measured for three of them)."""
    code, text = failing("no-such-model", "--override-generation-config", override)

    assert (code, text.count("\n")) == (64, 1)
    assert says in text


def test_a_folder_of_the_operators_that_is_not_there_is_refused(tiny_opt: Path, tmp_path: Path) -> None:
    code, text = failing(str(tiny_opt), "--generation-config", str(tmp_path / "nowhere"))

    assert (code, text.count("\n")) == (64, 1)
    assert "--generation-config" in text


def test_an_operators_folder_limits_what_a_client_asks(tiny_opt: Path, tmp_path: Path) -> None:
    """Upstream, measured: 7 of 20 tokens for a folder with max_new_tokens 7, and 3 of 3."""
    (tmp_path / "generation_config.json").write_text('{"max_new_tokens": 7}')
    flags = ("--num-gpu-blocks-override", "8", "--generation-config", str(tmp_path))
    with running(tiny_opt, *flags) as server, server.client() as client:
        body = {"model": str(tiny_opt), "prompt": [5, 6, 7], "ignore_eos": True}
        given = [
            client.post("/v1/completions", json=body | asked).json()["usage"]["completion_tokens"]
            for asked in ({"max_tokens": 20}, {"max_tokens": None}, {"max_tokens": 3})
        ]

    assert given == [7, 7, 3]


@pytest.mark.parametrize("seed", ["-1", "4294967296", "99999999999999999999999", "x"])
def test_the_engines_seed_has_upstreams_range(seed: str) -> None:
    """Upstream: "Seed must be between 0 and 2**32 - 1"."""
    code, text = failing("no-such-model", "--seed", seed)

    assert (code, text.count("\n")) == (64, 1)
    assert "--seed" in text


def test_two_servers_that_load_cannot_hold_one_port() -> None:
    held = bind("127.0.0.1", 0)
    port = held.getsockname()[1]
    try:
        with pytest.raises(StartupError, match="in use"):
            bind("127.0.0.1", port)
    finally:
        held.close()
    bind("127.0.0.1", port).close()


def test_a_server_can_follow_another_on_its_port_at_once(tiny_opt: Path) -> None:
    """Connections that the first one closed linger on the port."""
    with running(tiny_opt, "--num-gpu-blocks-override", "8") as first, first.client() as client:
        assert client.get("/health").status_code == 200
        first.signal()
        assert first.wait_exit(10) == 0
        port = first.base.rpartition(":")[2]

    with running(tiny_opt, "--num-gpu-blocks-override", "8", "--port", port) as second:
        assert second.base.endswith(f":{port}")
        assert httpx.get(f"{second.base}/health").status_code == 200


def test_the_second_server_on_a_port_learns_it_before_it_loads(tiny_opt: Path) -> None:
    with bind("127.0.0.1", 0) as held:
        code, text = failing(str(tiny_opt), "--port", str(held.getsockname()[1]))

    assert (code, text.count("\n")) == (1, 1)
    assert "in use" in text

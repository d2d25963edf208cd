"""The player against our own server as a user starts it: the founding case, streams, disconnects and a signal."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parity.observation import After, Ended, Serve
from parity.scenario import Action, AtOnce, Await, Exchange, Exit, Leave, Open, Send, Signal, Until
from parity.serve.player import play
from tests.engine.server.running import STUCK, Running, running
from tests.parity.serve.scripts import exchange, script

pytestmark = pytest.mark.model

IDLE = After(running=0, waiting=0, cache_in_use=False)
GREEDY = {"model": "tiny", "temperature": 0, "ignore_eos": True}


class OwnServer:
    """A running server as a Target."""

    def __init__(self, server: Running, model: Path) -> None:
        self._server = server
        self.base_url = server.base
        self.model = str(model)

    def alive(self) -> bool:
        return self._server.process.poll() is None

    def signal(self, name: str) -> None:
        self._server.signal(signal.Signals[f"SIG{name}"])

    def wait(self, seconds: float) -> Ended:
        try:
            return Ended(state="exited", code=self._server.process.wait(seconds), orphans=0)
        except subprocess.TimeoutExpired:
            return Ended(state="alive", code=None, orphans=0)

    def last_words(self) -> str:
        return "".join(self._server.log[-3:])


@pytest.fixture(scope="module")
def tiny_opt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from engine.model_files import make_tiny_opt

    folder = tmp_path_factory.mktemp("models") / "tiny-opt"
    folder.mkdir()
    make_tiny_opt(folder)
    return folder


FLAGS = (
    "--served-model-name",
    "tiny",
    "--dtype",
    "float32",
    "--num-gpu-blocks-override",
    "4",
    "--block-size",
    "16",
)


@pytest.fixture(scope="module")
def target(tiny_opt: Path) -> Iterator[OwnServer]:
    """Four blocks of 16: what can wait for ever, does."""
    with running(tiny_opt, *FLAGS) as server:
        yield OwnServer(server, tiny_opt)


def played(target: OwnServer, *actions: Action) -> Serve:
    return asyncio.run(play(script(*actions), target))


def completion(id: str, **more: Any) -> Exchange:
    body, options = {}, {}
    for key, value in more.items():
        (options if key in ("deadline", "leave_after") else body)[key] = value
    return exchange(id, "/v1/completions", {**GREEDY, **body}, **options)


def test_the_founding_case(target: OwnServer) -> None:
    seen = played(
        target,
        Open(completion("stuck", **STUCK, deadline=3)),
        Until(running=0, waiting=1, within=10),
        Send(exchange("why", "/metrics")),
        Await("stuck", "end"),
        Send(completion("then", prompt="hello", max_tokens=2)),
    )

    assert [answer.ending for answer in seen.exchanges] == ["silent", "answered", "answered"]
    assert seen.exchanges[1].body["waiting_by_reason"] == {"capacity": 1, "deferred": 0}
    assert seen.exchanges[2].body["usage"]["completion_tokens"] == 2
    assert (seen.conditions, seen.health, seen.after) == ([True], [200], IDLE)


def test_a_stream_and_a_plain_answer_say_the_same(target: OwnServer) -> None:
    asked = {"prompt": [7, 8, 9], "max_tokens": 12, "return_token_ids": True, "logprobs": 2}

    seen = played(
        target,
        Send(completion("plain", **asked)),
        Send(completion("stream", **asked, stream=True, stream_options={"include_usage": True})),
    )

    plain, stream = seen.exchanges[0].body, seen.exchanges[1].stream
    assert stream is not None
    (choice,) = stream.choices
    said = plain["choices"][0]
    assert choice.kinds == ["tokens", "finish"]
    for key in ("text", "token_ids", "prompt_token_ids", "finish_reason", "stop_reason"):
        assert choice.joined[key] == said[key]
    assert choice.joined["logprobs"]["token_logprobs"] == pytest.approx(
        said["logprobs"]["token_logprobs"], abs=2e-4
    )
    assert stream.rest[0]["usage"]["completion_tokens"] == plain["usage"]["completion_tokens"] == 12
    assert stream.rest[1:] == ["[DONE]"]
    assert stream.usage == "last"


def test_a_play_twice_is_the_same_observation_but_for_logprobs(target: OwnServer) -> None:
    chat = {
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 8,
        "stream": True,
        "model": "tiny",
        "temperature": 0,
    }
    actions = (
        AtOnce([completion(f"c{n}", prompt=[5, n], max_tokens=6, stream=n % 2 == 0) for n in range(4)]),
        Send(exchange("chat", "/v1/chat/completions", chat)),
        Send(exchange("models", "/v1/models")),
        Send(completion("wrong", prompt="x", max_tokens=0)),
    )

    assert played(target, *actions) == played(target, *actions)


def test_preemption_is_seen(target: OwnServer) -> None:
    both = AtOnce([completion(id, prompt=[5] * 8, max_tokens=24, cache_salt=id) for id in "ab"])

    assert played(target, both).preempted
    assert not played(target, Send(completion("alone", prompt=[5] * 8, max_tokens=24))).preempted


def test_whoever_leaves_gives_back_what_they_held(target: OwnServer) -> None:
    seen = played(
        target,
        Send(completion("counted", prompt=[3], max_tokens=40, stream=True, leave_after=3)),
        Open(completion("told", **STUCK)),
        Until(running=0, waiting=1, within=10),
        Leave("told"),
        Until(running=0, waiting=0, within=5),
    )

    assert [answer.ending for answer in seen.exchanges] == ["left", "left"]
    assert (seen.conditions, seen.after) == ([True, True], IDLE)


def test_a_signal_while_stuck(tiny_opt: Path) -> None:
    with running(tiny_opt, *FLAGS) as server:
        seen = played(
            OwnServer(server, tiny_opt),
            Open(completion("stuck", **STUCK, deadline=20)),
            Until(running=0, waiting=1, within=10),
            Signal("TERM"),
            Exit(within=10),
            Send(exchange("late", "/health")),
        )

    assert [answer.ending for answer in seen.exchanges] == ["answered", "refused"]
    assert seen.exchanges[0].body["choices"][0]["finish_reason"] == "abort"
    assert seen.exchanges[0].body["usage"]["completion_tokens"] == 41
    assert seen.after is None
    assert seen.ended is not None
    assert seen.ended.state == "exited"

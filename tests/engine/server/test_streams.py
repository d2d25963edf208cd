"""Streams against what upstream sent at the pin: the sequence of frames and the keys of each.

Upstream sends one token a frame when it is idle and joins tokens when it is busy; so do we, so frames of tokens are
compared by their keys and not by their number.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.engine.server.talk import Talk, error_of

HERE = Path(__file__)
FACTS = json.loads(HERE.with_name("upstream_streams.json").read_text(encoding="utf-8"))
REFUSALS = json.loads(HERE.with_name("upstream_stream_refusals.json").read_text(encoding="utf-8"))
PROMPT = [100, 101, 102, 103, 104, 105]
PLAIN: dict[str, Any] = {
    "prompt": PROMPT,
    "temperature": 0,
    "ignore_eos": True,
    "max_tokens": 6,
    "stream": True,
}


def kind(frame: Any) -> tuple[str, list[str] | None]:
    if frame == "[DONE]":
        return "[DONE]", None
    if not frame["choices"]:
        return "usage", sorted(frame)
    choice = frame["choices"][0]
    name = "finish" if choice["finish_reason"] else "role" if "role" in choice.get("delta", {}) else "tokens"
    return f"{name} {choice['index']}", [*sorted(frame), "choice:", *sorted(choice)]


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact["name"])
def test_streams_as_upstream_does(fact: dict[str, Any], talk: Talk) -> None:
    if fact["status"] != 200:
        expected = fact["error"]
        response = talk.post(fact["path"], fact["body"])
        assert error_of(response) == (fact["status"], expected["type"], expected["param"], expected["code"])
        return

    seen = [kind(frame) for frame in talk.frames(fact["path"], fact["body"])]

    wanted = [(name, keys) for name, keys in fact.get("frames", fact.get("frames_of", {}).items())]
    keys = dict(wanted)
    for name, found in seen:
        assert found == keys.get(name, keys.get(name.replace("tokens", "finish"))), name
    important = [name for name, _ in seen if not name.startswith("tokens")]
    if "frames" in fact:
        assert important == [name for name, _ in wanted if not name.startswith("tokens")]
    else:
        assert sorted(important) == sorted(name for name, _ in wanted if not name.startswith("tokens"))


@pytest.mark.parametrize("fact", REFUSALS, ids=lambda fact: fact["name"])
def test_what_only_the_engine_refuses_is_a_frame_and_the_rest_a_status(
    fact: dict[str, Any], talk: Talk
) -> None:
    expected = fact["error"]
    if fact["status"] != 200:
        response = talk.post(fact["path"], fact["body"])
        assert error_of(response) == (fact["status"], expected["type"], expected["param"], expected["code"])
        return

    first, last = talk.frames(fact["path"], fact["body"])

    assert last == "[DONE]"
    assert {key: first["error"][key] for key in expected} == expected


def test_a_stream_says_what_a_whole_response_says(talk: Talk) -> None:
    whole = talk.complete(prompt=PROMPT, max_tokens=6, return_token_ids=True, logprobs=2)["choices"][0]

    frames = talk.frames("/v1/completions", PLAIN | {"return_token_ids": True, "logprobs": 2})

    choices = [frame["choices"][0] for frame in frames[:-1]]
    assert "".join(choice["text"] for choice in choices) == whole["text"]
    assert [t for choice in choices for t in choice["token_ids"]] == whole["token_ids"]
    assert [t for choice in choices for t in choice["logprobs"]["tokens"]] == whole["logprobs"]["tokens"]
    assert choices[-1]["finish_reason"] == whole["finish_reason"] == "length"


def test_offsets_go_on_from_the_text_before_them(talk: Talk) -> None:
    frames = talk.frames("/v1/completions", PLAIN | {"prompt": "Hello", "logprobs": 0, "stream_interval": 2})

    shown = 0
    for frame in frames[:-1]:
        choice = frame["choices"][0]
        assert choice["logprobs"]["text_offset"][0] == shown
        shown += len(choice["text"])
    assert shown > 0


def test_include_usage_adds_one_chunk_without_choices(talk: Talk) -> None:
    frames = talk.frames("/v1/completions", PLAIN | {"stream_options": {"include_usage": True}})

    assert frames[-2]["choices"] == []
    assert frames[-2]["usage"] == {"prompt_tokens": 6, "total_tokens": 12, "completion_tokens": 6}
    assert all("usage" not in frame for frame in frames[:-2])


def test_continuous_usage_grows_with_the_tokens(talk: Talk) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}

    frames = talk.frames("/v1/completions", PLAIN | {"stream_options": options, "return_token_ids": True})

    seen = 0
    for frame in frames[:-2]:
        seen += len(frame["choices"][0]["token_ids"])
        assert frame["usage"] == {"prompt_tokens": 6, "total_tokens": 6 + seen, "completion_tokens": seen}
    assert seen == 6


def test_every_choice_of_every_prompt_finishes_once(talk: Talk) -> None:
    body = PLAIN | {"prompt": [PROMPT, [7, 8]], "n": 3, "temperature": 1, "seed": 4}

    frames = talk.frames("/v1/completions", body)

    finished = [f["choices"][0]["index"] for f in frames[:-1] if f["choices"][0]["finish_reason"]]
    assert sorted(finished) == [0, 1, 2, 3, 4, 5]
    assert frames.count("[DONE]") == 1


def test_stream_interval_joins_tokens_but_not_the_first(talk: Talk) -> None:
    body = PLAIN | {"stream_interval": 4, "max_tokens": 10, "return_token_ids": True}

    counts = [len(f["choices"][0]["token_ids"]) for f in talk.frames("/v1/completions", body)[:-1]]

    assert sum(counts) == 10
    assert all(count >= 4 for count in counts[1:-1])


def test_a_chat_stream_begins_with_the_role_of_each_choice(talk: Talk) -> None:
    body = {
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 2,
        "stream": True,
        "n": 2,
        "seed": 1,
    }

    frames = talk.frames("/v1/chat/completions", body)

    deltas = [frame["choices"][0]["delta"] for frame in frames[:2]]
    assert deltas == [{"role": "assistant", "content": ""}] * 2
    assert all("role" not in frame["choices"][0]["delta"] for frame in frames[2:-1])

"""Streams in canonical form: the same however tokens fall into frames, and nothing else folded away."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parity.observation import Choice, Stream
from parity.serve.canonical import CHOICES, answer
from parity.serve.exchange import Raw
from tests.parity.serve.canonical_kit import NOW, events, folded, part, stream, told
from tests.parity.serve.fake_http import FakeServer
from tests.parity.serve.scripts import exchange
from tests.parity.serve.streams import SEQUENCES, WISHES, Token, Wish, framings


@given(SEQUENCES, WISHES, st.data())
def test_a_stream_does_not_depend_on_how_tokens_fall_into_frames(
    sequences: list[list[Token]], wish: Wish, data: st.DataObject
) -> None:
    one = folded(data.draw(framings(sequences, wish)))
    other = folded(data.draw(framings(sequences, wish)))

    assert one == other
    assert len(one.choices) == len(sequences)
    assert one.usage == ("every" if wish.continuous else "none")
    for choice, tokens in zip(one.choices, sequences, strict=True):
        said = choice.joined["delta"]["content"] if wish.chat else choice.joined["text"]
        assert said == "".join(text for text, _, _ in tokens)
        assert choice.joined["token_ids"] == ([id for _, id, _ in tokens] if wish.ids else None)
        if wish.logprobs and wish.chat:
            assert [entry["logprob"] for entry in choice.joined["logprobs"]["content"]] == [
                t[2] for t in tokens
            ]
        elif wish.logprobs:
            assert choice.joined["logprobs"]["token_logprobs"] == [value for _, _, value in tokens]
            assert choice.joined["logprobs"]["text_offset"] == "*"


def test_the_form_of_a_plain_stream() -> None:
    beside = {"id": "cmpl-0123456789abcdef", "created": NOW, "model": "m"}

    assert stream(part("a", **beside), part("b", "stop", **beside, extra=1), "[DONE]") == Stream(
        choices=[
            Choice(
                index=0,
                kinds=["tokens", "finish"],
                joined={
                    "index": 0,
                    "text": "ab",
                    "finish_reason": "stop",
                    "frame": {"id": "cmpl-1", "created": "*", "model": "m", "extra": 1},
                },
                finish={
                    "index": 0,
                    "text": None,
                    "finish_reason": "stop",
                    "frame": {"id": "cmpl-1", "created": "*", "model": "m", "extra": 1},
                },
                keys={"tokens": [{"lacks": ["frame.extra"], "has": []}]},
            )
        ],
        rest=["[DONE]"],
        usage="none",
    )


@pytest.mark.parametrize(
    ("choices", "kinds"),
    [
        ([{"delta": {"role": "assistant", "content": ""}}, {"delta": {"content": "a"}}], ["role", "tokens"]),
        (
            [{"delta": {"role": "assistant", "content": "a"}}, {"delta": {"content": "b"}}],
            ["role+tokens", "tokens"],
        ),
        ([{"delta": {"role": "assistant"}}, {"delta": {"role": "assistant"}}], ["role", "role"]),
        ([{"text": "a", "finish_reason": "stop"}, {"text": ""}], ["tokens", "finish", "empty"]),
        ([{"text": "", "finish_reason": "stop"}, {"text": "a"}], ["finish", "tokens"]),
        (
            [{"text": "a", "finish_reason": "stop"}, {"text": "", "finish_reason": "stop"}],
            ["tokens", "finish", "finish"],
        ),
        ([{"text": ""}, {"text": "", "finish_reason": "stop"}], ["finish"]),
        ([{"text": "a"}, {"odd": 1}], ["tokens", "other"]),
        ([{"delta": {"refusal": "no"}}], ["other"]),
        ([{"delta": {"tool_calls": [{"index": 0}]}}], ["tokens"]),
        ([{"text": "", "token_ids": [7]}], ["tokens"]),
    ],
)
def test_kinds(choices: list[dict[str, Any]], kinds: list[str]) -> None:
    frames = [{"choices": [{"index": 0, **choice}]} for choice in choices]

    assert stream(*frames).choices[0].kinds == kinds


def test_what_differs_between_frames_stays_visible() -> None:
    one = {"id": "cmpl-0000000000000001", "model": "m"}
    other = {"id": "cmpl-0000000000000002", "model": "m"}

    joined = stream(part("a", **one), part("b", **other)).choices[0].joined

    assert joined["frame"] == {"id": {"distinct": ["cmpl-1", "cmpl-2"]}, "model": "m"}


def test_tool_calls_are_joined_by_index() -> None:
    def call(index: int, **function: str) -> dict[str, Any]:
        return {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": index, "function": function}]}}]}

    whole = stream(call(0, name="f", arguments="{"), call(1, name="g", arguments=""), call(0, arguments="}"))

    assert whole.choices[0].joined["delta"]["tool_calls"] == [
        {"index": 0, "function": {"name": "f", "arguments": "{}"}},
        {"index": 1, "function": {"name": "g", "arguments": ""}},
    ]


@pytest.mark.parametrize(
    ("content", "rest"),
    [
        (events(part("a", "stop"), "[DONE]", "[DONE]"), ["[DONE]", "[DONE]"]),
        (events(part("a", "stop")), []),
        (events(part("a"), "[DONE]", part("b")), [CHOICES, "[DONE]", CHOICES]),
        (
            events(part("a")) + b": ping\n\n" + events(part("b"), "[DONE]"),
            [CHOICES, ": ping", CHOICES, "[DONE]"],
        ),
        (events("{oh", "[DONE]"), ["data: {oh", "[DONE]"]),
        (events([1], 2), [[1], 2]),
        (events({"error": {"message": "x", "code": 400}}), [{"error": {"message": "*", "code": 400}}]),
        (events({"choices": [{"text": "no index"}]}), [{"choices": [{"text": "no index"}]}]),
        (events({"choices": {}}), [{"choices": {}}]),
        (
            b'event: e\ndata: {"created": %d}\n\n' % NOW,
            [{"fields": [["event", "e"]], "data": {"created": "*"}}],
        ),
        (b'data: {"id":"cmpl-0123456789abcdef","cho', [{"partial": 'data: {"id":"cmpl-1","cho'}]),
        (
            b"data:[DONE]\n\n\n",
            [
                "[DONE]",
                {"oddity": "a blank line that ends no frame"},
                {"oddity": "no space after the colon of a data line"},
            ],
        ),
    ],
)
def test_what_belongs_to_no_choice_is_kept_in_order(content: bytes, rest: list[Any]) -> None:
    assert folded(content).rest == rest


@pytest.mark.parametrize(
    ("frames", "verdict"),
    [
        ([part("a"), part("b", "stop")], "none"),
        ([part("a", usage=None), {"choices": [], **told(1)}], "last"),
        ([part("a", **told(1)), part("b", "stop", **told(2)), {"choices": [], **told(2)}], "every"),
        ([part("a", **told(1)), part("b", index=1, **told(1)), {"choices": [], **told(2)}], "every"),
        (
            [part("a"), part("b", **told(2)), {"choices": [], **told(2)}],
            "some: without tokens, with tokens",
        ),
        ([part("a", **told(1))], "choices"),
        ([part("a", **told(2)), part("b", **told(1)), {"choices": [], **told(1)}], "decreasing"),
        ([part("a", **told(1)), {"choices": [], **told(2)}], "unequal"),
        ([part("a", **told(1)), part("b", index=1, **told(1)), {"choices": [], **told(1)}], "unequal"),
    ],
)
def test_where_a_usage_stood(frames: list[Any], verdict: str) -> None:
    assert stream(*frames).usage == verdict


def test_a_timed_stream_keeps_what_is_no_matter_of_time() -> None:
    aborted = stream(part("ab"), part("c", "abort"), {"choices": [], **told(3)}, "[DONE]", timed=True)
    whole = [part("ab"), part("c", "stop"), "[DONE]"]

    assert aborted.choices[0] == Choice(
        index=0,
        kinds=["cut", "finish"],
        joined={"index": 0, "text": "a", "finish_reason": "abort", "frame": {}},
        finish={"index": 0, "text": None, "finish_reason": "abort", "frame": {}},
    )
    assert aborted.rest[0]["usage"] == {"prompt_tokens": 3, "completion_tokens": "cut", "total_tokens": "cut"}
    assert aborted.rest[1] == "[DONE]"
    assert stream(part("abc"), timed=True) == stream(part("a"), part("b"), timed=True)
    assert stream(*whole, timed=True) == stream(*whole)


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        (Raw("answered", 200, {}, b""), ""),
        (Raw("answered", 200, {}, b'{"a": 1}'), {"a": 1}),
        (Raw("broken", 200, {}, b'{"a": '), '{"a": '),
        (Raw("unanswered", 200, {}, b""), None),
        (Raw("silent", None, {}, b""), None),
        (Raw("left", 200, {}, b'{"a": 1}', timed=True), None),
    ],
)
def test_the_body_of_an_answer(raw: Raw, body: Any) -> None:
    found = answer(exchange("a", "/x"), raw, FakeServer())

    assert (found.body, found.stream, found.status, found.ending) == (body, None, raw.status, raw.ending)

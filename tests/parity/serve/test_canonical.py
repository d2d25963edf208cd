"""Streams in canonical form: the same however tokens fall into frames, and nothing else folded away."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parity.observation import Choice, Stream
from parity.serve.canonical import CHOICES, answer, streamed
from parity.serve.exchange import Raw
from parity.serve.normalise import Scrubber
from tests.parity.serve.fake_http import FakeServer
from tests.parity.serve.scripts import exchange
from tests.parity.serve.streams import SEQUENCES, WISHES, Token, Wish, framings, usage

NOW = int(time.time())


def events(*frames: Any) -> bytes:
    texts = [frame if isinstance(frame, str) else json.dumps(frame) for frame in frames]
    return b"".join(b"data: " + text.encode() + b"\n\n" for text in texts)


def part(text: str, finish: str | None = None, index: int = 0, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "text": text, "finish_reason": finish}], **more}


def folded(content: bytes, **options: Any) -> Stream:
    found = streamed(content, Scrubber("/m"), **options)
    assert found is not None
    return found


def stream(*frames: Any, **options: Any) -> Stream:
    return folded(events(*frames), **options)


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


def told(tokens: int) -> dict[str, Any]:
    return {"usage": usage(tokens)}


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


OUTER = {"id": "cmpl-0123456789abcdef", "object": "text_completion", "created": NOW, "model": "m"}


def token(text: str, finish: str | None = None, index: int = 0, **more: Any) -> dict[str, Any]:
    """A completion's frame with the keys that upstream's has."""
    choice = {"index": index, "text": text, "logprobs": None, "finish_reason": finish, "stop_reason": None}
    return {**OUTER, "choices": [choice], **more}


def talk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    """A chat's frame, likewise; what only a finish has is in `more`."""
    reason = {} if finish is None else {"stop_reason": None}
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish, **reason}
    return {**OUTER, "choices": [choice], **more}


def without(frame: dict[str, Any], key: str) -> dict[str, Any]:
    choices = [{name: value for name, value in choice.items() if name != key} for choice in frame["choices"]]
    return {name: value for name, value in {**frame, "choices": choices}.items() if name != key}


END = [token("b", "length"), "[DONE]"]
GREETING = talk({"role": "assistant", "content": ""})
TALK = [GREETING, talk({"content": "a"}), talk({"content": ""}, "stop", system_fingerprint="x"), "[DONE]"]
COUNT = {"choices": [], **told(2)}


@pytest.mark.parametrize(
    "key", ["id", "object", "created", "model", "logprobs", "finish_reason", "stop_reason", "text"]
)
def test_a_key_that_frames_of_tokens_lack_shows_whatever_the_finish_has(key: str) -> None:
    whole, lacking = stream(token("a"), *END), stream(without(token("a"), key), *END)

    assert whole.choices[0].keys == {}
    place = key if key in ("logprobs", "finish_reason", "stop_reason", "text") else f"frame.{key}"
    assert lacking.choices[0].keys == {"tokens": [{"lacks": [place], "has": []}]}


def test_the_keys_of_a_chat() -> None:
    told_of_role = stream(*TALK).choices[0].keys
    bare = stream(talk({"role": "assistant"}), *TALK[1:]).choices[0].keys
    empty = stream(GREETING, talk({}), *TALK[2:]).choices[0].keys
    early = stream(GREETING, talk({"content": "a"}, system_fingerprint="x"), *TALK[2:]).choices[0].keys
    open_end = stream(*TALK[:2]).choices[0].keys

    assert list(told_of_role) == ["role"]
    assert set(told_of_role["role"][0]) - set(bare["role"][0]) == {"delta.content"}
    assert empty["tokens"] == [{"lacks": ["delta.content"], "has": []}]
    assert early["tokens"] == [{"lacks": [], "has": ["frame.system_fingerprint"]}]
    assert [set(keys) & {"delta.content", "stop_reason"} for keys in open_end["tokens"]] == [
        {"delta.content"}
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (events(token("a"), *END), events(token("a"), END[0], '"[DONE]"')),
        (events(token("a"), *END), events(token("a"), END[0], ": [DONE]")),
        (b": x\n\n", events('": x"')),
        (events("data: x"), events('"data: data: x"')),
        (events("x"), events('"data: x"')),
        (events({"partial": "data: x"}), b"data: x"),
        (events({"oddity": "a blank line that ends no frame"}), events()),
        (events(token("a"), *END), events(token("a"), *END).replace(b"data: {", b"data: {\ndata: ", 1)),
        (events(token("a"), *END), events(token("a"), *END).replace(b'{"id"', b'{"model": "x", "id"')),
        (b": x\n\n" + events(token("a"), *END), events(token("a")) + b": x\n\n" + events(*END)),
        (events(COUNT, token("a"), *END), events(token("a"), COUNT, *END)),
        (
            events(token("a", **told(1)), token("c"), token("b", "length", **told(2))),
            events(token("a"), token("c", **told(1)), token("b", "length", **told(2))),
        ),
        (events(token("a"), *END), events(*[token("a")] + [token("")] * 500, *END)),
        (events(token("a"), *END), events(token("a", one=True), token("c", one=1), *END)),
        (events({"n": 0.0}), events({"n": -0.0})),
        (events("[" * 101 + "]" * 101), events(json.dumps("data: " + "[" * 101 + "]" * 101))),
    ],
)
def test_streams_that_differ_read_differently(one: bytes, other: bytes) -> None:
    assert digest(folded(one, max_tokens=3)) != digest(folded(other, max_tokens=3))


def digest(value: Stream) -> bytes:
    return msgspec.json.encode(value, order="sorted")


@pytest.mark.parametrize(
    ("frames", "limit", "is_odd"),
    [
        ([GREETING, talk({"content": "echo"}), talk({"content": "a"}), TALK[2]], 1, False),
        ([token("")] * 5 + [token("é", "length")], 3, False),
        ([token("")] * 6 + [token("é", "length")], 3, True),
        ([token("")] * 6 + [token("é", "length")], None, False),
        ([*[token("")] * 6, token("a", "length"), COUNT], None, True),
    ],
)
def test_more_frames_than_tokens_are_odd(frames: list[Any], limit: int | None, is_odd: bool) -> None:
    assert ({"oddity": "more frames than tokens"} in stream(*frames, max_tokens=limit).rest) is is_odd


def test_the_tokens_that_a_choice_lists_are_a_limit_too() -> None:
    listed = [{"choices": [{"index": 0, "text": "", "token_ids": [7] if at == 0 else []}]} for at in range(5)]

    assert stream(*listed).rest == []
    assert stream(*listed, max_tokens=50).rest == [{"oddity": "more frames than tokens"}]


def cut_short(*frames: Any) -> Stream:
    return stream(*frames, timed=True)


def test_what_cut_a_stream_off_hides_nothing_but_the_number_of_tokens() -> None:
    one = cut_short(token("ab"), token("c"))

    assert one == cut_short(token("a"), token("b"), token("c"), token("d"))
    assert one.choices[0].kinds == ["cut"]
    assert one.choices[0].joined["text"] == "a"
    for other in (
        [token("zb"), token("c")],
        [{**token("ab"), "object": "WRONG"}],
        [token("ab", new_key=1)],
        [without(token("ab"), "logprobs")],
        [{**OUTER, "choices": [{**token("ab")["choices"][0], "logprobs": 5}]}],
        [{**OUTER, "choices": [{**token("ab")["choices"][0], "new": {"x": 1}}]}],
        [token("ab"), "rubbish"],
    ):
        assert cut_short(*other) != one


def test_of_a_cut_stream_with_ids_and_log_probabilities_the_first_of_each_stays() -> None:
    logprobs = {"tokens": ["a", "b"], "token_logprobs": [-1.0, -2.0], "text_offset": [0, 1]}
    frame = {"choices": [{"index": 0, "text": "ab", "token_ids": [5, 6], "logprobs": logprobs}], **told(2)}

    said = cut_short(frame).choices[0].joined

    assert said["token_ids"] == [5]
    assert said["logprobs"] == {"tokens": ["a"], "token_logprobs": [-1.0], "text_offset": "*"}
    assert said["frame"]["usage"] == {"prompt_tokens": 3, "completion_tokens": "cut", "total_tokens": "cut"}


def test_a_frame_that_was_cut_off_before_any_choice_is_a_matter_of_time() -> None:
    assert folded(b'data: {"id', timed=True).rest == [{"partial": "cut"}]


@given(SEQUENCES, WISHES, st.data())
def test_a_cut_stream_depends_neither_on_frames_nor_on_how_many_came(
    sequences: list[list[Token]], wish: Wish, data: st.DataObject
) -> None:
    tokens = [("a", 5, -1.0), *sequences[0]]
    forms = set()
    for _ in range(2):
        frames = data.draw(framings([tokens], wish)).split(b"\n\n")[:-1]
        ends = [at for at, frame in enumerate(frames) if b'"length"' in frame]
        least = 2 if wish.chat else 1
        if ends[0] >= least:
            size = data.draw(st.integers(least, ends[0]))
            content = b"".join(frame + b"\n\n" for frame in frames[:size])
            forms.add(digest(folded(content, timed=True)))

    assert len(forms) <= 1


def left(content: bytes, after: int | None = 2) -> Stream | None:
    raw = Raw("left", 200, {"content-type": "text/event-stream"}, content, timed=True)
    return answer(exchange("a", "/x", leave_after=after), raw, FakeServer()).stream


def test_of_a_client_that_left_the_frames_for_which_it_stayed_are_compared() -> None:
    one = left(events(token("a"), token("b"), token("c")))

    assert one is not None
    assert one == left(events(token("ab"), token("c"), "rubbish", {"error": {}}))
    assert one.choices[0].joined["text"] == "a"
    for other in (
        events({"error": {"message": "no"}}, token("a")),
        events(token("a"), "rubbish"),
        events(token("z"), token("b")),
        events(token("a"), without(token("b"), "id")),
        events(token("a"), token("b", "length")),
        events(token("a"), token("b")).replace(b"data: ", b"data:"),
        b": x\n\n" + events(token("a"), token("b")),
    ):
        assert left(other) != one
    assert left(events(token("a")), after=None) == left(events(token("a"), "rubbish"), after=None)
    assert left(events(token("a")), after=2) is None


def test_which_choices_came_before_a_client_left_is_a_matter_of_time() -> None:
    both = left(events(token("a"), token("b", index=1)))

    assert both == left(events(token("a"), token("c")))
    assert both != left(events(token("a"), without(token("b", index=1), "id")))


def test_an_id_of_another_exchange_shows() -> None:
    seen: dict[str, str] = {}
    bodies = []
    for name, raw in (("a", "0" * 16), ("b", "1" * 16), ("c", "0" * 16)):
        content = b'{"id": "cmpl-%s"}' % raw.encode()
        found = answer(exchange(name, "/x"), Raw("answered", 200, {}, content), FakeServer(), seen)
        bodies.append(found.body["id"])

    assert bodies == ["cmpl-1", "cmpl-1", "cmpl-1 of a"]


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

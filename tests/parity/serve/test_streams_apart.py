"""Which streams read alike and which do not: keys, odd bytes, and what of a stream that was cut short is no matter of time."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parity.observation import Stream
from parity.serve.canonical import answer
from parity.serve.exchange import Raw
from tests.parity.serve.canonical_kit import NOW, events, folded, stream, told
from tests.parity.serve.fake_http import FakeServer
from tests.parity.serve.scripts import exchange
from tests.parity.serve.streams import SEQUENCES, WISHES, Token, Wish, framings

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

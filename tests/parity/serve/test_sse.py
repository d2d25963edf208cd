"""Bytes of a stream as frames: every line end, every cut, nothing dropped."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parity.serve.sse import BLANK, CARRIAGE_RETURNS, NOT_UTF8, SPLIT, UNSPACED, Frame, FrameReader, read


def test_a_stream_of_data_frames() -> None:
    reader = read(b'data: {"a": 1}\n\ndata: [DONE]\n\n')

    assert reader.frames == [Frame("data", '{"a": 1}'), Frame("data", "[DONE]")]
    assert reader.oddities == set()
    assert reader.data_frames == 2


@pytest.mark.parametrize("end", [b"\r\n", b"\r"])
def test_other_line_ends_give_the_same_frames_and_are_odd(end: bytes) -> None:
    plain = b": hi\n\nevent: e\ndata: 1\n\ndata: 2\n\n"

    reader = read(plain.replace(b"\n", end))

    assert reader.frames == read(plain).frames
    assert reader.oddities == {CARRIAGE_RETURNS}


def test_comments_and_fields_are_frames_of_their_own_or_stay_with_their_data() -> None:
    reader = read(b": ping\n\nevent: error\nid: 7\nretry: 10\ndata: a\ndata: b\n\nevent: lone\n\nrubbish\n\n")

    assert reader.frames == [
        Frame("comment", ": ping"),
        Frame("data", "a\nb", (("event", "error"), ("id", "7"), ("retry", "10"))),
        Frame("fields", "", (("event", "lone"),)),
        Frame("fields", "", (("rubbish", ""),)),
    ]
    assert reader.oddities == {SPLIT}


@pytest.mark.parametrize("left", [b'data: {"a', b"data: x", b"data: x\n", b"event: e\nda"])
def test_a_frame_that_the_end_cuts_off_is_kept_as_it_came(left: bytes) -> None:
    assert read(b"data: 1\n\n" + left).frames == [
        Frame("data", "1"),
        Frame("partial", left.decode().removesuffix("\n")),
    ]


@pytest.mark.parametrize(
    ("content", "oddity"),
    [
        (b"data:1\n\n", UNSPACED),
        (b"data: 1\n\n\n", BLANK),
        (b"\ndata: 1\n\n", BLANK),
        (b": ping\n\n\ndata: 1\n\n", BLANK),
        (b"data: \xff\n\n", NOT_UTF8),
        (b"data: 1\n\r\n", CARRIAGE_RETURNS),
        (b'data: {\ndata: "a": 1}\n\n', SPLIT),
    ],
)
def test_what_a_lenient_client_would_not_notice_is_told(content: bytes, oddity: str) -> None:
    assert read(content).oddities == {oddity}


PIECES = st.sampled_from(
    [b"data: x", b"data:", b": c", b"event: e", b"\n", b"\r", b"\r\n", b"\n\n", b"\xc3\xa9", b"a"]
)


@given(st.lists(PIECES, max_size=20).map(b"".join), st.data())
def test_frames_do_not_depend_on_how_the_bytes_arrive(content: bytes, data: st.DataObject) -> None:
    at_once = read(content)

    reader, rest = FrameReader(), content
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        reader.feed(rest[:size])
        rest = rest[size:]
    reader.close()

    assert reader.frames == at_once.frames
    assert reader.oddities == at_once.oddities
    assert reader.data_frames == at_once.data_frames


def test_of_a_client_that_left_no_more_than_its_frames_are_read() -> None:
    content = b": hi\n\ndata: 1\n\ndata:2\r\n\r\ndata: 3\n\n: late\n\n"

    assert [frame.text for frame in read(content, 1).frames] == [": hi", "1"]
    assert read(content, 1).oddities == set()
    assert [frame.text for frame in read(content, 2).frames] == [": hi", "1", "2"]
    assert read(content, 2).oddities == {CARRIAGE_RETURNS, UNSPACED}
    assert read(content, 9).data_frames == 3


def test_a_frame_of_megabytes_in_small_chunks_takes_no_time() -> None:
    reader = FrameReader()
    begun = time.process_time()
    for _ in range(320):
        reader.feed(b"x" * 65_536)
    assert time.process_time() - begun < 2
    assert reader.close()[0].text == "x" * (320 * 65_536)

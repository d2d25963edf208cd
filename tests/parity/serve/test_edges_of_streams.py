"""Edges of the canonical form of streams and JSON that upstream was not seen to come to."""

from __future__ import annotations

from typing import Any

import pytest

from parity.serve.folding import _join, joined
from parity.serve.normalise import ANY, Scrubber
from tests.parity.serve.canonical_kit import NOW, events, folded, part, stream


def test_a_negative_zero_is_told_apart_outside_of_log_probabilities() -> None:
    scrubber = Scrubber("/m")

    assert scrubber.json([-0.0]) == [{"number": "-0.0"}]
    assert scrubber.json({"logprobs": [-0.0]}) == {"logprobs": [0.0]}


def test_a_fragment_keeps_a_time_that_is_none_of_today() -> None:
    scrubber = Scrubber("/m")

    assert scrubber.fragment('{"created": 123, "x') == '{"created": 123, "x'
    assert scrubber.fragment(f'{{"created": {NOW}, "x') == f'{{"created": {ANY}, "x'


def test_keys_of_a_stream_without_a_finish_stand_in_one_order() -> None:
    more = dict.fromkeys("qwertyuiop", 1)
    choices = [{"index": 0, "text": "a", **more}]

    (choice,) = folded(events({"choices": choices})).choices

    assert choice.keys == {"tokens": [sorted(["index", "text", *more])]}


def test_a_cut_stream_keeps_its_role_before_the_cut() -> None:
    role = {"choices": [{"index": 0, "delta": {"role": "assistant"}}]}
    said = {"choices": [{"index": 0, "delta": {"content": "a"}}]}

    (choice,) = stream(role, said, timed=True).choices

    assert choice.kinds == ["role", "cut"]


@pytest.mark.parametrize(
    ("key", "said", "whole"),
    [
        ("delta", [{"a": 1}, {"a": 1}], {"a": 1}),
        ("other", [{"a": 1}, {"b": 2}], {"distinct": [{"a": 1}, {"b": 2}]}),
        ("delta", [{"a": 1}, 7], {"distinct": [{"a": 1}, 7]}),
        ("frame", [None, {"a": 1}], {"a": 1}),
    ],
)
def test_only_maps_that_are_said_in_parts_are_joined(key: str, said: list[Any], whole: Any) -> None:
    assert _join(key, said) == whole
    assert joined([{key: value} for value in said]) == {key: whole}


def test_choices_whose_frames_say_otherwise_are_two_however_many_are_looked_at() -> None:
    alike = [part("a", index=0, object="x"), part("b", index=1, object="x")]
    unlike = [part("a", index=0, object="x"), part("b", index=1, object="y")]

    assert len(stream(*alike, frames=2).choices) == 1
    assert len(stream(*unlike, frames=2).choices) == 2

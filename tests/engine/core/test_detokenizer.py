"""Text as it comes: whole characters, spaces where they belong, and an end where a stop string says so."""

from __future__ import annotations

from typing import Any

import pytest

from engine.detokenizer import INCOMPLETE, Detokenizer, FastStream, PlainStream, Stream
from engine.sampling import SamplingParams
from engine.tokenizer import Tokenizer

TEXTS = [
    "The capital of France is Paris.",
    "naïve café, 日本語, 🙂🙃!",
    "  two  spaces\n\ttab",
    "é" * 9,
    "🙂",
]


class Spelled:
    """A stream whose token `i` spells `pieces[i]`."""

    def __init__(self, *pieces: str) -> None:
        self._pieces = pieces

    def step(self, token_id: int) -> str:
        return self._pieces[token_id]


def spell(*pieces: str, **params: Any) -> Detokenizer:
    return Detokenizer(Spelled(*pieces), SamplingParams(**params))


def feed(detokenizer: Detokenizer, count: int, *, stopped: bool = False) -> tuple[list[str], str | None]:
    """Push tokens 0, 1, …; the text shown after each, and the stop string that ended it."""
    shown: list[str] = []
    for token in range(count):
        last = token == count - 1
        found = detokenizer.push([token], stopped=stopped and last)
        shown.append(detokenizer.take(finished=found is not None or last))
        if found is not None:
            return shown, found
    return shown, None


def streams(tokenizer: Tokenizer, prompt: list[int]) -> list[Stream]:
    wrapped = tokenizer._wrapped
    return [
        FastStream(wrapped._tokenizer, prompt, True),
        PlainStream(lambda ids: tokenizer.decode(ids, skip_special_tokens=True), prompt),
    ]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("prompt", ["", "Hello", "é"])
def test_no_character_is_torn_and_none_is_lost(tokenizer: Tokenizer, text: str, prompt: str) -> None:
    start = tokenizer.encode(prompt)
    ids = tokenizer.encode(text, add_special_tokens=False)
    for stream in streams(tokenizer, start):
        pieces = [stream.step(token) for token in ids]

        assert "".join(pieces) == text
        assert not any(INCOMPLETE in piece for piece in pieces)


def test_what_is_half_a_character_has_no_text_yet(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("🙂", add_special_tokens=False)
    assert len(ids) == 4, "the tiny tokenizer spells it in bytes"

    for stream in streams(tokenizer, [2]):
        assert [stream.step(token) for token in ids] == ["", "", "", "🙂"]


def test_special_tokens_are_skipped_or_shown(tokenizer: Tokenizer) -> None:
    ids = [*tokenizer.encode("one", add_special_tokens=False), 2, 2]

    hidden = tokenizer.detokenizer([2], SamplingParams())
    shown = tokenizer.detokenizer([2], SamplingParams(skip_special_tokens=False))
    joined = tokenizer.detokenizer(
        [2], SamplingParams(skip_special_tokens=False, spaces_between_special_tokens=False)
    )
    for detokenizer in (hidden, shown, joined):
        detokenizer.push(ids, stopped=False)

    assert [hidden.text, shown.text, joined.text] == ["one", "one</s></s>", "one</s></s>"]


def test_a_stop_string_is_found_across_tokens_and_not_shown() -> None:
    assert feed(spell("one S", "TO", "P two", stop=("STOP",)), 3) == (["on", "e ", ""], "STOP")


def test_it_is_shown_where_it_shall_be_and_nothing_after_it() -> None:
    kept = spell("one S", "TO", "P two", stop=("STOP",), include_stop_str_in_output=True)

    assert feed(kept, 3) == (["one S", "TO", "P"], "STOP")


def test_what_might_have_become_a_stop_string_is_shown_at_the_end() -> None:
    assert feed(spell("one S", "TO", stop=("STOP",)), 2) == (["on", "e STO"], None)


def test_of_several_stop_strings_the_first_complete_one_counts() -> None:
    assert feed(spell("abcd", stop=("bcd", "bc")), 1) == (["a"], "bc")
    assert feed(spell("abcd", stop=("cd", "bcd")), 1) == (["ab"], "cd")


def test_no_stop_string_is_looked_for_before_min_tokens() -> None:
    assert feed(spell("a", "X", "b", "X", stop=("X",), min_tokens=2), 4) == (["a", "X", "b", ""], "X")


def test_a_stop_string_that_began_within_min_tokens_may_be_completed_after() -> None:
    """Upstream looks back by the length of the stop string, less one."""
    assert feed(spell("a", "X", "Y", stop=("XY",), min_tokens=2), 3)[1] == "XY"


def test_the_token_that_stopped_it_has_no_text_unless_asked_for() -> None:
    assert feed(spell("a", "</s>"), 2, stopped=True) == (["a", ""], None)
    assert feed(spell("a", "</s>", include_stop_str_in_output=True), 2, stopped=True) == (["a", "</s>"], None)


def test_a_step_without_tokens_adds_nothing() -> None:
    detokenizer = spell("a")

    assert detokenizer.push([], stopped=False) is None
    assert detokenizer.take(finished=True) == ""


def test_the_fast_stream_goes_on_after_a_text_that_does_not_continue() -> None:
    class Broken:
        calls = 0

        def step(self, _backend: object, _token_id: int) -> str:
            Broken.calls += 1
            if Broken.calls == 1:
                raise RuntimeError("Invalid prefix encountered while decoding stream.")
            return "again"

    stream = FastStream.__new__(FastStream)
    stream._backend, stream._skip, stream._stream = None, True, Broken()
    stream._started = lambda _prompt: Broken()  # type: ignore[method-assign]

    assert stream.step(5) == "again"

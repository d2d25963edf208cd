"""What a tie takes out of the comparison, and that it takes out nothing else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from parity.diff import first_difference
from parity.finding import Tie
from parity.observation import Answer, plain
from parity.ties import GAP, are_exchangeable, settle
from tests.parity.served import (
    answer,
    chat_token,
    choice,
    completion,
    folded,
    listed,
    serve,
    streamed,
    usage,
)

FIRST = (">", -1.0, {" t": -2.0})
NARROW = ("(", -1.1, {"e": -1.1 - GAP / 2})  # the oracle's two best, nearer than the gap
WIDE = ("(", -1.1, {"e": -1.1 - GAP * 2})
OTHER_WAY = ("e", -1.1, {"(": -1.1001})


def text_of(*tokens: Any) -> str:
    return "".join(token for token, _, _ in tokens)


def whole(*tokens: Any, reason: str = "length", **others: Any) -> Answer:
    made = choice(listed(*tokens), text_of(*tokens), reason, **others)
    return answer(completion(made, tokens=len(tokens)))


def left_over(oracle: Answer, subject: Answer) -> tuple[str | None, list[Tie]]:
    """Where the settled subject still differs, and the ties."""
    settled, ties = settle(serve(oracle), serve(subject))
    found = first_difference(plain(serve(oracle)), plain(settled))
    return (None if found is None else found.path), ties


def test_after_a_tie_the_rest_of_the_choice_is_not_compared() -> None:
    oracle = whole(FIRST, NARROW, ("x", -1.0, {"y": -2.0}), token_ids=[33, 11, 7])
    subject = whole(FIRST, OTHER_WAY, reason="stop", token_ids=[33, 99])

    where, (tie,) = left_over(oracle, subject)

    assert where is None
    assert (tie.exchange, tie.choice, tie.position) == ("a", 0, 1)
    assert tie.gap == pytest.approx(GAP / 2)


def test_where_the_oracle_decides_it_is_a_difference() -> None:
    assert left_over(whole(FIRST, WIDE), whole(FIRST, OTHER_WAY)) == (
        "exchanges[0].body.choices[0].text",
        [],
    )


def test_a_token_that_was_no_candidate_is_no_tie() -> None:
    three = ("(", -1.1, {"e": -1.1004, "z": -5.0})

    assert left_over(whole(FIRST, three), whole(FIRST, ("z", -1.1, {"(": -1.2})))[1] == []
    assert left_over(whole(FIRST, three), whole(FIRST, ("q", -1.1, {"(": -1.2})))[1] == []
    assert len(left_over(whole(FIRST, three), whole(FIRST, OTHER_WAY))[1]) == 1


def test_a_third_that_is_not_listed_may_be_as_near_where_all_that_are_listed_are() -> None:
    assert len(left_over(whole(FIRST, NARROW), whole(FIRST, ("q", -1.1, {"(": -1.1001})))[1]) == 1


def test_a_token_that_the_oracle_took_though_it_was_not_the_best_is_no_tie() -> None:
    sampled = ("(", -4.0, {"e": -1.0, "f": -1.0001})

    assert left_over(whole(FIRST, sampled), whole(FIRST, ("e", -1.0, {"f": -1.0001})))[1] == []


def test_without_two_alternatives_there_is_nothing_to_tell_a_tie_by() -> None:
    assert left_over(whole(FIRST, ("(", -1.1, {})), whole(FIRST, OTHER_WAY))[1] == []
    assert left_over(whole(FIRST, NARROW), whole(FIRST, ("e", -1.1, {})))[1] == []


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"text": "!e"}, "exchanges[0].body.choices[0].text"),
        ({"token_ids": [34, 99]}, "exchanges[0].body.choices[0].token_ids[0]"),
        ({"extra": 1}, "exchanges[0].body.choices[0].extra"),
        ({"index": 1}, "exchanges[0].body.choices[0].index"),
    ],
)
def test_what_stands_before_the_tie_and_beside_it_is_compared(changes: Any, where: str) -> None:
    oracle = whole(FIRST, NARROW, token_ids=[33, 11])
    subject = whole(FIRST, OTHER_WAY, token_ids=[33, 99])
    made = {**subject.body["choices"][0], **changes}
    subject = msgspec.structs.replace(subject, body={**subject.body, "choices": [made]})

    assert left_over(oracle, subject)[0] == where


def test_a_log_probability_before_the_tie_is_compared() -> None:
    oracle = whole(FIRST, NARROW)
    subject = whole((">", -1.001, {" t": -2.0}), OTHER_WAY)

    assert left_over(oracle, subject)[0] == "exchanges[0].body.choices[0].logprobs.token_logprobs[0]"


def test_another_choice_and_another_exchange_are_compared_whole() -> None:
    sure = choice(listed(FIRST, WIDE), ">(", index=1)
    other = choice(listed(FIRST, OTHER_WAY), ">e", index=1)
    tied, untied = choice(listed(NARROW), "("), choice(listed(OTHER_WAY), "e")

    assert left_over(answer(completion(tied, sure)), answer(completion(untied, other)))[0] == (
        "exchanges[0].body.choices[1].text"
    )


def test_without_a_tie_the_usage_is_compared() -> None:
    oracle = whole(FIRST, WIDE)
    body = {**oracle.body, "usage": usage(6, 3)}

    assert left_over(oracle, answer(body))[0] == "exchanges[0].body.usage.completion_tokens"


def test_with_an_echoed_prompt_the_ids_begin_later_than_the_tokens() -> None:
    prompt = ("'", -3.0, {" t": -1.6})
    oracle = whole(prompt, FIRST, NARROW, token_ids=[33, 11])
    subject = whole(prompt, FIRST, OTHER_WAY, token_ids=[33, 99])
    wrong = whole(prompt, FIRST, OTHER_WAY, token_ids=[34, 99])

    assert left_over(oracle, subject)[0] is None
    assert left_over(oracle, wrong)[0] == "exchanges[0].body.choices[0].token_ids[0]"


def chat(*tokens: Any, reason: str = "length") -> Answer:
    said = [chat_token(*token) for token in tokens]
    message = {"role": "assistant", "content": text_of(*tokens)}
    made = {"index": 0, "message": message, "logprobs": {"content": said}, "finish_reason": reason}
    return answer({"choices": [made], "usage": usage(10, len(tokens))})


def test_chat_has_ties_of_the_same_kind() -> None:
    assert left_over(chat(FIRST, NARROW), chat(FIRST, OTHER_WAY, FIRST, reason="stop"))[0] is None
    assert left_over(chat(FIRST, WIDE), chat(FIRST, OTHER_WAY))[0] == (
        "exchanges[0].body.choices[0].message.content"
    )


def stream(*tokens: Any, reason: str = "length") -> Answer:
    frame = {"object": "text_completion", "usage": usage(6, len(tokens))}
    said = {
        "index": 0,
        "text": text_of(*tokens),
        "finish_reason": reason,
        "logprobs": listed(*tokens),
        "frame": frame,
    }
    said["logprobs"]["text_offset"] = "*"
    rest = [{"choices": [], "usage": usage(6, len(tokens))}, "[DONE]"]
    return answer(None, stream=streamed(folded(joined=said, reason=reason), rest=rest, usage="every"))


def test_a_stream_is_settled_as_its_frames_are_joined() -> None:
    where, ties = left_over(stream(FIRST, NARROW), stream(FIRST, OTHER_WAY, FIRST, reason="stop"))

    assert (where, [tie.position for tie in ties]) == (None, [1])


def test_a_missing_end_of_a_tied_stream_is_a_difference() -> None:
    subject = stream(FIRST, OTHER_WAY)
    assert subject.stream is not None
    cut = msgspec.structs.replace(subject.stream, rest=subject.stream.rest[:1])

    assert left_over(stream(FIRST, NARROW), answer(None, stream=cut))[0] == "exchanges[0].stream.rest"


# Near equals among the alternatives.


@pytest.mark.parametrize(
    ("oracle", "subject", "expected"),
    [
        (
            [("a", -1.0), ("b", -2.0)],
            [("a", -1.0), ("c", -2.0001)],
            True,
        ),  # the last rank, cut off differently
        ([("a", -1.0), ("b", -2.0)], [("a", -1.0), ("c", -2.0003)], False),  # not near
        (
            [("a", -1.0), ("b", -2.0), ("c", -2.0001)],
            [("a", -1.0), ("c", -2.0), ("b", -2.0001)],
            True,
        ),  # swapped
        ([("a", -1.0), ("b", -2.0)], [("b", -1.0), ("a", -2.0)], False),  # swapped, and not near
        ([("a", -1.0), ("b", -2.0)], [("c", -1.0), ("b", -2.0)], False),  # not the last rank
        ([("a", -1.0), ("b", -2.0)], [("a", -1.0)], False),  # one fewer
        ([("a", -1.0), ("b", -2.0)], [("a", -1.0), ("b", -2.0)], False),  # nothing to exchange
        ([], [], False),
    ],
)
def test_only_near_equals_are_exchangeable(oracle: Any, subject: Any, expected: bool) -> None:
    assert are_exchangeable(oracle, subject) is expected


def test_an_exchanged_alternative_is_no_difference_and_no_tie() -> None:
    oracle, subject = (">", -1.0, {" t": -2.0}), (">", -1.0, {" u": -2.0001})

    assert left_over(whole(oracle), whole(subject)) == (None, [])
    assert left_over(chat(oracle), chat(subject)) == (None, [])


def test_the_chosen_token_itself_is_compared_beside_exchanged_alternatives() -> None:
    oracle, subject = chat((">", -1.0, {" t": -2.0})), chat((">", -1.0, {" u": -2.0001}))
    subject.body["choices"][0]["logprobs"]["content"][0]["logprob"] = -1.01

    assert left_over(oracle, subject)[0] == "exchanges[0].body.choices[0].logprobs.content[0].logprob"


def test_an_alternative_with_another_key_is_a_difference() -> None:
    oracle, subject = chat((">", -1.0, {" t": -2.0})), chat((">", -1.0, {" u": -2.0001}))
    subject.body["choices"][0]["logprobs"]["content"][0]["top_logprobs"][1]["rank"] = 2

    assert left_over(oracle, subject)[0] is not None

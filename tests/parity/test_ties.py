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
OTHER_WAY = ("e", -1.1, {"(": -1.1 - GAP / 2})


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


def ties_at(oracle: Any, subject: Any) -> int:
    """How many ties there are where the sides go on with these after the same token."""
    return len(left_over(whole(FIRST, oracle), whole(FIRST, subject))[1])


def test_a_token_that_was_no_candidate_is_no_tie() -> None:
    three = ("(", -1.1, {"e": -1.1004, "z": -5.0})

    assert ties_at(three, ("e", -1.1, {"(": -1.1004, "z": -5.0})) == 1
    assert ties_at(three, ("z", -1.1, {"(": -1.1004, "e": -5.0})) == 0
    assert ties_at(three, ("z", -5.0, {"(": -1.1, "e": -1.1004})) == 0
    assert ties_at(three, ("q", -1.1, {"(": -1.1004, "z": -5.0})) == 0


@pytest.mark.parametrize(
    "subject",
    [
        ("zzz", -15.0, {"y": -16.0}),  # two tokens from nowhere
        ("zzz", -1.1, {"y": -1.1005}),  # the same values under other names
        ("e", -0.01, {"x": -5.0}),  # another distribution
        ("e", -1.0, {"(": -1.1}),  # near, and not within the tolerance
        ("e", -1.0997, {"(": -1.1008}),
        ("q", -9.0, {"(": -1.1, "e": -1.1005}),  # one that both call unlikely
        ("e", -1.1, {"(": -1.1005, "x": -1.2, "y": -1.3}),  # more alternatives than one more
    ],
)
def test_what_led_to_the_tie_is_the_same_and_so_are_the_alternatives(subject: Any) -> None:
    assert ties_at(NARROW, subject) == 0
    assert left_over(chat(FIRST, NARROW), chat(FIRST, subject))[1] == []


def test_a_token_whose_own_value_is_not_the_one_that_is_listed_is_no_tie() -> None:
    subject = whole(FIRST, OTHER_WAY)
    subject.body["choices"][0]["logprobs"]["token_logprobs"][1] = -15.0

    assert left_over(whole(FIRST, NARROW), subject)[1] == []


def test_a_place_with_another_key_is_no_tie() -> None:
    subject = chat(FIRST, OTHER_WAY)
    del subject.body["choices"][0]["logprobs"]["content"][1]["bytes"]

    assert left_over(chat(FIRST, NARROW), subject)[1] == []


def test_a_third_that_is_not_listed_may_be_as_near_where_all_that_are_listed_are() -> None:
    assert ties_at(NARROW, ("q", -1.1, {"(": -1.1005})) == 1
    assert (
        ties_at(NARROW, ("q", -1.1006, {"(": -1.1, "e": -1.1005})) == 1
    )  # the chosen one comes on top of two


def test_where_tokens_are_named_by_ids_the_text_before_a_tie_cannot_be_told() -> None:
    def of(first: str, token: Any) -> Answer:
        made = choice(listed(("token_id:5", -1.0, {"token_id:6": -2.0}), token), first + token[0])
        return answer(completion(made, tokens=2))

    oracle = of("> ", ("token_id:7", -1.1, {"token_id:8": -1.1005}))
    subject = of("WRONG ", ("token_id:8", -1.1, {"token_id:7": -1.1005}))

    assert left_over(oracle, subject)[0] == "exchanges[0].body.choices[0].text"


def test_a_token_that_the_oracle_took_though_it_was_not_the_best_is_no_tie() -> None:
    sampled = ("(", -4.0, {"e": -1.0, "f": -1.0001})

    assert ties_at(sampled, ("e", -1.0, {"f": -1.0001})) == 0


def test_without_two_alternatives_there_is_nothing_to_tell_a_tie_by() -> None:
    assert ties_at(("(", -1.1, {}), OTHER_WAY) == 0
    assert ties_at(NARROW, ("e", -1.1, {})) == 0


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"text": "!e"}, "exchanges[0].body.choices[0].text"),
        ({"token_ids": [34, 99]}, "exchanges[0].body.choices[0].token_ids[0]"),
        ({"token_ids": [33, 99, 7]}, "exchanges[0].body.choices[0].token_ids[1]"),  # one more than is listed
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
    assert left_over(chat(FIRST, NARROW), chat(FIRST, OTHER_WAY, reason="stop"))[0] is None
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
    where, ties = left_over(stream(FIRST, NARROW, FIRST), stream(FIRST, OTHER_WAY, reason="stop"))

    assert (where, [tie.position for tie in ties]) == (None, [1])


def test_a_missing_end_of_a_tied_stream_is_a_difference() -> None:
    subject = stream(FIRST, OTHER_WAY)
    assert subject.stream is not None
    cut = msgspec.structs.replace(subject.stream, rest=subject.stream.rest[:1])

    assert left_over(stream(FIRST, NARROW), answer(None, stream=cut))[0] == "exchanges[0].stream.rest"


# What of an end may follow from a tie.


@pytest.mark.parametrize(
    ("oracle", "subject", "where"),
    [
        (("length", 3), ("length", 3), None),
        (("length", 3), ("length", 2), "text"),
        (("length", 3), ("length", 4), "text"),
        (("length", 3), ("stop", 2), None),
        (("length", 3), ("stop", 3), None),
        (("length", 3), ("stop", 4), "text"),
        (("stop", 3), ("length", 4), None),
        (("stop", 3), ("length", 2), "text"),
        (("stop", 3), ("stop", 2), None),
        (("stop", 3), ("stop", 4), None),
        (("length", 3), (None, 2), "finish_reason"),
        (("length", 3), ("abort", 2), "finish_reason"),
        (("stop", 3), ("whatever", 2), "finish_reason"),
        (("abort", 3), ("stop", 2), "finish_reason"),
    ],
)
@pytest.mark.parametrize("kind", ["completion", "stream"])
def test_a_text_ends_as_long_as_its_reasons_allow(kind: str, oracle: Any, subject: Any, where: Any) -> None:
    make = whole if kind == "completion" else stream
    more = ("x", -1.0, {"y": -2.0})
    left = make(FIRST, NARROW, *[more] * (oracle[1] - 2), reason=oracle[0])
    right = make(FIRST, OTHER_WAY, *[more] * (subject[1] - 2), reason=subject[0])

    found = left_over(left, right)[0]

    assert (None if found is None else found.rpartition(".")[2]) == where


def counted(prompt: int, completion_tokens: int, total: int) -> Any:
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    return dict(zip(names, (prompt, completion_tokens, total), strict=True))


@pytest.mark.parametrize(
    ("told", "where"),
    [
        (counted(6, 2, 8), None),
        (counted(5, 2, 7), "prompt_tokens"),
        (counted(6, 3, 9), "completion_tokens"),  # billed though it did not come
        (counted(6, 2, 9), "total_tokens"),
        ({**counted(6, 2, 8), "prompt_tokens_details": {}}, "prompt_tokens_details"),
        (None, "usage"),
    ],
)
def test_only_what_came_after_a_tie_is_counted_otherwise(told: Any, where: str | None) -> None:
    """Three tokens of the oracle's, two of the subject's, after a prompt of six."""
    oracle = whole(FIRST, NARROW, FIRST)
    subject = whole(FIRST, OTHER_WAY, reason="stop")
    subject = msgspec.structs.replace(subject, body={**subject.body, "usage": told})

    found, ties = left_over(oracle, subject)

    assert len(ties) == 1
    assert (None if found is None else found.rpartition(".")[2]) == where


def test_the_usage_of_a_stream_is_counted_over_all_its_choices() -> None:
    def of(told: int, *lengths: int, other: Any) -> Answer:
        more = ("x", -1.0, {"y": -2.0})
        made = [
            folded(
                index,
                joined={"index": index, "finish_reason": "stop", "logprobs": listed(other, *[more] * number)},
                reason="stop",
            )
            for index, number in enumerate(lengths)
        ]
        rest = [{"choices": [], "usage": usage(6, told)}, "[DONE]"]
        return answer(None, stream=streamed(*made, rest=rest, usage="last"))

    oracle = of(7, 2, 3, other=NARROW)

    assert left_over(oracle, of(5, 1, 2, other=OTHER_WAY))[0] is None
    assert left_over(oracle, of(6, 1, 2, other=OTHER_WAY))[0] == (
        "exchanges[0].stream.rest[0].usage.completion_tokens"
    )


@pytest.mark.parametrize(("told", "is_taken"), [(None, True), (7, True), ("x", True), ([], False)])
def test_what_stopped_a_text_may_be_another_token(told: Any, is_taken: bool) -> None:
    oracle = whole(FIRST, NARROW, FIRST, reason="stop", stop_reason=2)

    found = left_over(oracle, whole(FIRST, OTHER_WAY, reason="stop", stop_reason=told))[0]

    assert (found is None) == is_taken
    assert left_over(oracle, whole(FIRST, OTHER_WAY, FIRST, reason="length", stop_reason=2))[0] is not None


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

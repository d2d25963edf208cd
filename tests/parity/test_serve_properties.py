"""What each promise asks of a server, whoever serves."""

from __future__ import annotations

from typing import Any

import pytest

from parity.finding import Broken
from parity.observation import After, Answer, Serve
from parity.properties import broken_properties
from parity.scenario import AtOnce, Await, Leave, Open, ServeScenario, Signal
from tests.parity.served import (
    STUCK,
    answer,
    choice,
    completion,
    ended,
    exchange,
    folded,
    listed,
    lost,
    script,
    send,
    serve,
    stopped,
    streamed,
    usage,
)

ERROR = {"error": {"message": "*", "type": "InternalServerError", "param": None, "code": 500}}
THREE = listed((">", -1.9, {}), ("(", -1.1, {}), (" was", -1.7, {}))


def broken(observation: Serve, scenario: ServeScenario | None = None, **kw: Any) -> list[Broken]:
    return list(broken_properties(scenario or script(), observation, **kw))


def names(observation: Serve, scenario: ServeScenario | None = None) -> list[str]:
    return [item.property for item in broken(observation, scenario)]


def only(observation: Serve, scenario: ServeScenario | None = None) -> Broken:
    (item,) = broken(observation, scenario)
    return item


def test_an_answered_script_keeps_every_promise() -> None:
    assert names(serve(answer(completion(choice(THREE, ">( was"))))) == []


def test_an_observation_of_another_level_is_a_mistake_of_the_caller() -> None:
    from tests.records.miniature import plan

    with pytest.raises(TypeError, match="serving/miniature is served"):
        broken_properties(script(), plan())


# answers


@pytest.mark.parametrize("ending", ["silent", "unanswered", "broken", "refused"])
def test_a_client_that_stays_gets_a_whole_answer(ending: str) -> None:
    item = only(serve(lost(ending)))

    assert (item.property, item.at, item.value) == ("answers", "exchanges[0].ending", ending)
    assert (item.event, item.role, item.events) == (ending, "completions", ())


def test_a_client_that_left_asks_for_nothing() -> None:
    gone = script(Open(exchange()), Leave("a"))

    assert names(serve(lost("left")), gone) == []


def test_a_server_that_was_told_to_end_may_refuse_whoever_comes_after() -> None:
    late = script(send("a"), Signal("TERM"), send("b"))
    early = script(Open(exchange("b")), Signal("TERM"), send("a"))
    observation = serve(answer(completion(), "a"), lost("refused", "b"), after=None)
    other = serve(lost("refused", "b"), answer(completion(), "a"), after=None)

    assert names(observation, late) == []
    assert names(other, early) == ["answers"]


def test_every_exchange_that_is_lost_is_told() -> None:
    scenario = script(send("a"), send("b", "/health"), send("c"))
    found = broken(serve(lost("silent", "a"), answer(None, "b"), lost("broken", "c")), scenario)

    assert [(item.at, item.value) for item in found] == [
        ("exchanges[0].ending", "silent"),
        ("exchanges[2].ending", "broken"),
    ]


def test_an_error_is_a_whole_answer() -> None:
    assert names(serve(answer(ERROR, status=500))) == []


# exits-on-signal


@pytest.mark.parametrize(
    ("end", "at", "value"),
    [
        (ended("alive", None), "ended.state", "alive"),
        (ended(orphans=2), "ended.orphans", 2),
        (None, "ended", None),
    ],
)
def test_a_process_that_was_told_to_end_ends_and_leaves_none_behind(end: Any, at: str, value: Any) -> None:
    item = only(stopped(answer(completion(), "stuck"), ended=end), script(*STUCK))

    assert (item.property, item.at, item.value) == ("exits-on-signal", at, value)
    assert (item.role, item.events) == ("-", ("signal",))


def test_any_exit_code_is_an_end() -> None:
    assert names(stopped(answer(completion(), "stuck"), ended=ended(code=-9)), script(*STUCK)) == []


def test_where_nobody_waits_for_an_end_none_is_due() -> None:
    assert names(serve(answer(completion()), ended=None), script(send(), Signal("TERM"))) == []


# health-tells-the-truth


@pytest.mark.parametrize(
    ("statuses", "is_broken"), [([200], False), ([], False), ([0, 200], True), ([503], True)]
)
def test_health_says_200_while_nobody_told_the_server_to_end(statuses: list[int], is_broken: bool) -> None:
    found = broken(serve(answer(completion()), health=statuses))

    assert [(item.property, item.at, item.value) for item in found] == (
        [("health-tells-the-truth", "health", statuses)] if is_broken else []
    )


# stream-is-well-formed


def of_stream(*choices: Any, **changes: Any) -> Serve:
    return serve(answer(None, stream=streamed(*choices, **changes)))


def test_a_stream_ends_each_choice_once_and_then_itself() -> None:
    whole = of_stream(
        folded(0, ["role", "tokens", "finish"]),
        folded(1),
        rest=[{"choices": [], "usage": usage(6, 0)}, "[DONE]"],
    )

    assert names(whole) == []


@pytest.mark.parametrize(
    ("kinds", "is_broken"),
    [
        (["tokens", "finish"], False),
        (["finish"], False),
        (["tokens"], True),
        (["tokens", "finish", "tokens"], True),
        (["tokens", "finish", "tokens", "finish"], True),
        (["tokens", "finish", "empty"], True),
    ],
)
def test_a_choice_has_one_finish_and_it_is_the_last(kinds: list[str], is_broken: bool) -> None:
    found = broken(of_stream(folded(), folded(1, kinds)))

    assert [(item.property, item.at, item.value, item.event) for item in found] == (
        [("stream-is-well-formed", "exchanges[0].stream.choices[1].kinds", kinds, "stream:2xx")]
        if is_broken
        else []
    )


@pytest.mark.parametrize(
    ("rest", "value"),
    [
        ([], "0 x [DONE]"),
        (["[DONE]", "[DONE]"], "2 x [DONE]"),
        (["[DONE]", {"choices": [], "usage": None}], "1 x [DONE], not at the end"),
        (["[DONE]", "frames of choices"], "1 x [DONE], not at the end"),
        (["data: {oops", "[DONE]"], "data: {oops"),
        ([3, "[DONE]"], 3),
        (["[DONE]", {"partial": "data: {"}], {"partial": "data: {"}),
    ],
)
def test_done_stands_once_at_the_end_and_every_frame_is_an_object(rest: list[Any], value: Any) -> None:
    item = only(of_stream(folded(), rest=rest))

    assert (item.property, item.at, item.value) == (
        "stream-is-well-formed",
        "exchanges[0].stream.rest",
        value,
    )


def test_comments_are_passed_over() -> None:
    assert names(of_stream(folded(), rest=[": ping", "[DONE]", {"oddity": "a blank line"}])) == []


def test_an_error_frame_stands_for_the_finish_but_not_for_the_end_of_the_stream() -> None:
    """Upstream whose engine was killed in mid-stream sends the error and then [DONE]."""
    assert names(of_stream(folded(kinds=["tokens"]), rest=[ERROR, "[DONE]"])) == []
    assert names(of_stream(folded(kinds=["tokens"]), rest=[ERROR])) == ["stream-is-well-formed"]


def test_a_stream_that_was_cut_off_is_asked_for_an_answer_only() -> None:
    cut = streamed(folded(kinds=["tokens"]), rest=[])

    assert names(serve(answer(None, ending="broken", stream=cut))) == ["answers"]


# usage-adds-up


def counted(made: Any, body: Any = None, prompt: int = 6, tokens: int = 3) -> list[tuple[str, Any]]:
    scenario = script(send("a", body=body))
    found = broken(serve(answer(completion(*made, prompt=prompt, tokens=tokens))), scenario)
    assert {item.property for item in found} <= {"usage-adds-up"}
    return [(item.at, item.value) for item in found]


def test_the_total_is_the_sum() -> None:
    body = {**completion(choice(THREE)), "usage": {**usage(6, 3), "total_tokens": 10}}

    item = only(serve(answer(body)))

    assert (item.property, item.at, item.value) == (
        "usage-adds-up",
        "exchanges[0].body.usage.total_tokens",
        10,
    )


@pytest.mark.parametrize(("tokens", "is_broken"), [(2, True), (3, False), (4, True)])
def test_the_tokens_that_are_billed_are_those_that_came(tokens: int, is_broken: bool) -> None:
    expected = [("exchanges[0].body.usage.completion_tokens", tokens)] if is_broken else []

    assert counted([choice(THREE)], tokens=tokens) == expected
    assert counted([choice(token_ids=[33, 11, 441])], tokens=tokens) == expected


def test_the_choices_are_billed_together() -> None:
    assert counted([choice(token_ids=[1, 2]), choice(token_ids=[3, 4])], tokens=4) == []
    assert counted([choice(token_ids=[1, 2]), choice(token_ids=[3, 4])], tokens=2) != []


def test_what_a_client_cannot_count_is_not_judged() -> None:
    assert counted([choice()], tokens=77) == []
    assert counted([choice(token_ids=[1]), choice()], tokens=77) == []


def test_an_echoed_prompt_is_listed_with_the_tokens_of_each_choice() -> None:
    """Measured: 2 prompts of 6 and 7 tokens, n 2, 2 tokens each: the prompts are listed twice and billed once."""
    six = listed(*[("p", -1.0, {})] * 6, ("x", -1.0, {}), ("y", -1.0, {}))
    seven = listed(*[("p", -1.0, {})] * 7, ("x", -1.0, {}), ("y", -1.0, {}))
    made = [choice(six), choice(six), choice(seven), choice(seven)]

    assert counted(made, {"echo": True, "n": 2}, prompt=13, tokens=8) == []
    assert counted(made, {"echo": True, "n": 2}, prompt=13, tokens=7) != []


def test_a_token_that_is_billed_and_not_shown_is_told() -> None:
    """Measured: echo with max_tokens 0 bills one token; with token ids it is shown, with log probabilities it is not."""
    prompt = listed(*[("p", -1.0, {})] * 6)

    assert counted([choice(prompt)], {"echo": True, "max_tokens": 0}, tokens=1) == [
        ("exchanges[0].body.usage.completion_tokens", 1)
    ]
    assert counted([choice(prompt, token_ids=[33])], {"echo": True, "max_tokens": 0}, tokens=1) == []


def test_chat_is_counted_by_its_content() -> None:
    content = [{"token": "a", "logprob": -1.0}, {"token": "b", "logprob": -1.0}]
    made = [{"index": 0, "logprobs": {"content": content}, "finish_reason": "length"}]

    assert counted(made, {"messages": [], "echo": True}, tokens=2) == []
    assert counted(made, {"messages": [], "echo": True}, tokens=3) != []


def test_a_stream_is_counted_as_its_frames_are_joined() -> None:
    joined = {"index": 0, "text": ">( was", "logprobs": THREE, "finish_reason": "length"}

    def of(tokens: int, where: str = "last") -> list[str]:
        rest = [{"choices": [], "usage": usage(6, tokens)}, "[DONE]"]
        return [item.at for item in broken(of_stream(folded(joined=joined), rest=rest, usage=where))]

    assert of(3) == []
    assert of(4) == ["exchanges[0].stream.rest[0].usage.completion_tokens"]
    assert of(3, "decreasing") == ["exchanges[0].stream.usage"]
    assert of(3, "unequal") == ["exchanges[0].stream.usage"]


def test_what_is_a_matter_of_time_is_not_counted() -> None:
    cut = {"prompt_tokens": 6, "completion_tokens": "cut", "total_tokens": "cut"}
    body = {"choices": [choice(reason="abort", token_ids="cut")], "usage": cut}

    assert names(serve(answer(body))) == []


@pytest.mark.parametrize("told", ["3", "", True, None, 3.0])
def test_any_other_text_is_no_count(told: Any) -> None:
    counts = {"prompt_tokens": 6, "completion_tokens": told, "total_tokens": told}

    assert names(serve(answer({"choices": [], "usage": counts}))) == ["usage-adds-up"]


def test_the_usage_and_the_stream_of_every_exchange_are_asked() -> None:
    bad = {**completion(choice(THREE)), "usage": usage(6, 4)}
    cut = answer(None, "c", stream=streamed(folded(kinds=["tokens"])))
    open_ended = answer(None, "d", stream=streamed(folded(), rest=[]))
    scenario = script(send("a"), send("b"), send("c"), send("d"))

    found = broken(serve(answer(bad), answer(bad, "b"), cut, open_ended), scenario)

    assert [(item.property, item.at) for item in found] == [
        ("stream-is-well-formed", "exchanges[2].stream.choices[0].kinds"),
        ("stream-is-well-formed", "exchanges[3].stream.rest"),
        ("usage-adds-up", "exchanges[0].body.usage.completion_tokens"),
        ("usage-adds-up", "exchanges[1].body.usage.completion_tokens"),
    ]


def test_a_usage_that_is_no_number_does_not_add_up() -> None:
    body = {"choices": [], "usage": {"prompt_tokens": 6, "completion_tokens": None, "total_tokens": 6}}

    assert names(serve(answer(body))) == ["usage-adds-up"]


def test_other_endpoints_count_under_other_names() -> None:
    told = {"usage": {"input_tokens": 9, "output_tokens": 2, "total_tokens": 11}}

    assert names(serve(answer(body=told)), script(send(path="/v1/responses"))) == []
    assert names(serve(answer(body=told)), script(send(path="/v1/chat/completions?a=1"))) == ["usage-adds-up"]


def test_an_error_has_no_usage_to_add_up() -> None:
    assert names(serve(answer({"usage": {"total_tokens": 1}}, status=400))) == []


# frees-after-disconnect


@pytest.mark.parametrize(
    ("after", "at", "value"),
    [
        (After(1, 0, False), "after.running", 1),
        (After(0, 2, False), "after.waiting", 2),
        (After(0, 0, True), "after.cache_in_use", True),
    ],
)
def test_nothing_is_left_once_every_client_has_gone(after: After, at: str, value: Any) -> None:
    gone = script(Open(exchange()), Leave("a"))

    item = only(serve(lost("left"), after=after), gone)

    assert (item.property, item.at, item.value) == ("frees-after-disconnect", at, value)
    assert item.events == ("disconnect",)


# The parts of a shape.


def shape_of(scenario: ServeScenario, *exchanges: Answer, **changes: Any) -> tuple[str, tuple[str, ...]]:
    item = next(item for item in broken(serve(*exchanges, **changes), scenario) if item.property == "answers")
    return item.role, item.events


@pytest.mark.parametrize(
    ("path", "role"),
    [
        ("/v1/completions", "completions"),
        ("/v1/chat/completions", "chat"),
        ("/v1/models", "models"),
        ("/metrics", "metrics"),
        ("/health", "health"),
        ("/tokenize", "tokenize"),
        ("/v1/completions?x=1", "completions"),
        ("/version", "other"),
    ],
)
def test_the_role_is_the_endpoint(path: str, role: str) -> None:
    assert shape_of(script(send(path=path)), lost("silent"))[0] == role


def test_events_are_those_until_the_exchange_was_over() -> None:
    before = script(send("a"), Signal("TERM"))
    after = script(Signal("TERM"), send("a"))
    during = script(Open(exchange("a")), Signal("TERM"), Await("a", "end"))
    awaited = script(Open(exchange("a")), Await("a", "end"), Signal("TERM"))
    left = script(AtOnce([exchange("b", leave_after=3)]), send("a"))

    assert shape_of(before, lost("silent"))[1] == ()
    assert shape_of(after, lost("silent"))[1] == ("signal",)
    assert shape_of(during, lost("silent"))[1] == ("signal",)
    assert shape_of(awaited, lost("silent"))[1] == ()
    assert shape_of(left, lost("left", "b"), lost("silent"))[1] == ("disconnect",)
    assert shape_of(before, lost("silent"), preempted=True)[1] == ("preempt",)

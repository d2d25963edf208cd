"""Served scripts judged: whose a finding is, its shape, and outcome sets that do not show whole in every run."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from parity.finding import Finding, Judged
from parity.judge import judge
from parity.observation import Serve, digest
from tests.parity.served import (
    STUCK,
    answer,
    case,
    choice,
    completion,
    ended,
    folded,
    listed,
    lost,
    send,
    serve,
    stopped,
    streamed,
)
from tests.records.miniature import plays

FIRST = (">", -1.0, {" t": -2.0})


def whole(shift: float = 0.0, **changes: Any) -> Serve:
    logprobs = listed((">", -1.0 + shift, {" t": -2.0}))
    return serve(answer(completion(choice(logprobs, ">"), tokens=1)), **changes)


def stream(*rest: Any) -> Serve:
    return serve(answer(None, stream=streamed(folded(), rest=[*rest, "[DONE]"])))


def only(judged: Judged) -> Finding:
    (found,) = judged.findings
    return found


def brief(judged: Judged) -> list[tuple[str, str | None, str]]:
    return [(item.attribution, item.property, item.at) for item in judged.findings]


# Findings and their shapes.


def test_equal_sides_within_the_tolerance_match() -> None:
    assert judge(case(), plays(whole()), plays(whole(1e-4))).findings == ()


def test_a_log_probability_beyond_the_tolerance_is_ours_though_the_digests_agree() -> None:
    found = only(judge(case(), plays(whole()), plays(whole(1e-3))))

    assert (found.attribution, found.oracle_digest) == ("ours", found.subject_digest)
    assert found.at == "exchanges[0].body.choices[0].logprobs.token_logprobs[0]"


def test_a_comment_that_upstream_does_not_send_is_ours() -> None:
    found = only(judge(case(), plays(stream()), plays(stream(": ping"))))

    assert (found.attribution, found.property) == ("ours", None)
    assert found.shape == "serve|ours|stream:2xx|exchanges[*].stream.rest[*]|differs|completions|-|-"


def test_a_missing_end_of_a_stream_is_ours_and_breaks_its_promise() -> None:
    missing = serve(answer(None, stream=streamed(folded(), rest=[])))

    assert brief(judge(case(), plays(stream()), plays(missing))) == [
        ("ours", "stream-is-well-formed", "exchanges[0].stream.rest")
    ]


def test_another_status_is_told_with_both_classes() -> None:
    refused, unprocessable = (serve(answer({"error": {}}, status=status)) for status in (400, 500))

    found = only(judge(case(send(path="/v1/chat/completions")), plays(refused), plays(unprocessable)))

    assert found.shape == "serve|ours|answered:4xx/answered:5xx|exchanges[*].status|greater|chat|-|-"


def test_a_wedge_on_both_sides_is_mirrored() -> None:
    found = only(judge(case(), plays(serve(lost("silent"))), plays(serve(lost("silent")))))

    assert (found.attribution, found.oracle, found.subject) == ("mirrored", "silent", "silent")
    assert found.shape == "serve|mirrored|silent|exchanges[*].ending|broken|completions|-|answers"


THREE_SENT = (send("a"), send("b"), send("c"))


def test_what_both_sides_break_in_several_ways_is_a_finding_for_each() -> None:
    both = serve(lost("silent", "a"), lost("broken", "b"), lost("unanswered", "c"))

    judged = judge(case(*THREE_SENT), plays(both), plays(both))

    assert [(item.attribution, item.property, item.at, item.oracle) for item in judged.findings] == [
        ("mirrored", "answers", "exchanges[1].ending", "broken"),
        ("mirrored", "answers", "exchanges[0].ending", "silent"),
        ("mirrored", "answers", "exchanges[2].ending", "unanswered"),
    ]


def test_the_same_break_of_several_exchanges_is_one_finding() -> None:
    both = serve(lost("silent", "a"), answer(None, "b"), lost("silent", "c"))

    assert brief(judge(case(*THREE_SENT), plays(both), plays(both))) == [
        ("mirrored", "answers", "exchanges[0].ending")
    ]


def test_a_break_that_only_one_side_has_is_that_sides_beside_a_mirrored_one() -> None:
    oracle = serve(lost("silent", "a"), answer(None, "b"), answer(None, "c"))
    subject = serve(lost("silent", "a"), lost("broken", "b"), answer(None, "c"))

    assert brief(judge(case(*THREE_SENT), plays(oracle), plays(subject))) == [
        ("mirrored", "answers", "exchanges[0].ending"),
        ("ours", "answers", "exchanges[1].ending"),
    ]
    assert brief(judge(case(*THREE_SENT), plays(subject), plays(oracle))) == [
        ("mirrored", "answers", "exchanges[0].ending"),
        ("theirs", "answers", "exchanges[1].ending"),
    ]


def test_sides_that_lose_an_answer_in_different_ways_mirror_nothing() -> None:
    assert brief(judge(case(), plays(serve(lost("silent"))), plays(serve(lost("broken"))))) == [
        ("ours", "answers", "exchanges[0].ending"),
        ("theirs", "answers", "exchanges[0].ending"),
    ]


@pytest.mark.parametrize(
    ("oracle", "subject"), [({"x": 0.0}, {"x": -0.0}), ({"x": 3}, {"x": 3.0}), ({"x": 1}, {"x": True})]
)
def test_a_number_that_is_written_otherwise_is_a_difference_of_the_subjects(
    oracle: Any, subject: Any
) -> None:
    assert brief(judge(case(), plays(serve(answer(oracle))), plays(serve(answer(subject))))) == [
        ("ours", None, "exchanges[0].body.x")
    ]


def test_a_text_offset_that_is_no_integer_is_a_difference_of_the_subjects() -> None:
    offsets = [{"logprobs": {"text_offset": offset}} for offset in ([0], [0.0])]

    assert brief(judge(case(), *(plays(serve(answer(body))) for body in offsets))) == [
        ("ours", None, "exchanges[0].body.logprobs.text_offset[0]")
    ]


# Log probabilities behind a difference.


def refused_and_told(status: int, shift: float = 0.0, chat_shift: float = 0.0) -> Serve:
    """A refusal, then a completion and a chat with log probabilities."""
    told = completion(choice(listed((">", -1.0 + shift, {" t": -2.0})), ">"), tokens=1)
    content = [{"token": ">", "logprob": -1.0 + chat_shift, "bytes": [62], "top_logprobs": []}]
    said = {"choices": [{"index": 0, "logprobs": {"content": content}, "finish_reason": "stop"}]}
    return serve(answer({}, status=status), answer(told, "b"), answer(said, "c"))


BEHIND = case(send("a"), send("b"), send("c", "/v1/chat/completions"))


def test_log_probabilities_behind_a_difference_are_a_finding_of_their_own() -> None:
    judged = judge(BEHIND, plays(refused_and_told(400)), plays(refused_and_told(422, -6.0)))

    assert brief(judged) == [
        ("ours", None, "exchanges[0].status"),
        ("ours", None, "exchanges[1].body.choices[0].logprobs.token_logprobs[0]"),
    ]
    assert judge(BEHIND, plays(refused_and_told(400)), plays(refused_and_told(422, 1e-4))).findings[1:] == ()


def test_each_exchange_is_asked_for_its_log_probabilities() -> None:
    oracle, subject = refused_and_told(400), refused_and_told(422, -6.0, -6.0)

    places = ["exchanges[1].body.choices[0].logprobs.token_logprobs[0]"]
    places += ["exchanges[2].body.choices[0].logprobs.content[0].logprob"]
    assert [item[2] for item in brief(judge(BEHIND, plays(oracle), plays(subject)))][1:] == places
    alike = judge(BEHIND, plays(refused_and_told(422)), plays(subject))
    assert [item[2] for item in brief(alike)] == places


def test_under_a_policy_log_probabilities_that_differ_are_nobodys_fault() -> None:
    sides = (plays(refused_and_told(400)), plays(refused_and_told(422, -6.0)))

    assert [item[0] for item in brief(judge(BEHIND, *sides, mirrors=False))] == ["differs", "differs"]


@pytest.mark.parametrize(
    ("changes", "event", "path"),
    [
        ({"health": [0, 200]}, "health", "health[*]"),
        ({"preempted": True}, "preempted", "preempted"),
        ({"conditions": [False]}, "conditions", "conditions[*]"),
    ],
)
def test_what_is_told_of_the_whole_script_has_its_name_as_event(changes: Any, event: str, path: str) -> None:
    oracle = whole(conditions=[True] if "conditions" in changes else [])

    found = only(judge(case(waive=("health-tells-the-truth",)), plays(oracle), plays(whole(**changes))))

    assert found.shape.split("|")[2:4] == [event, path]


def test_how_the_process_ended_is_told_on_both_sides() -> None:
    oracle, subject = (stopped(answer(completion(), "stuck"), ended=ended(code=code)) for code in (0, 1))

    found = only(judge(case(*STUCK), plays(oracle), plays(subject)))

    assert found.shape == "serve|ours|end:exited|ended.code|greater|-|signal|-"


def test_tokens_in_a_path_are_no_part_of_a_shape() -> None:
    def shape(token: str) -> str:
        oracle = serve(answer(completion(choice(listed((token, -1.0, {})), token), tokens=1)))
        subject = serve(answer(completion(choice(listed((token, -1.0, {"zz": -3.0})), token), tokens=1)))
        return only(judge(case(), plays(oracle), plays(subject))).shape

    assert shape("the") == shape("a.[b]")
    assert "exchanges[*].body.choices[*].logprobs.top_logprobs[*][*]" in shape("the")


def test_the_ids_of_prompt_tokens_are_no_part_of_a_shape() -> None:
    def shape(token: str) -> str:
        oracle, subject = (
            serve(answer({"prompt_logprobs": [None, {token: {"logprob": -1.0, "rank": rank}}]}))
            for rank in (1, 2)
        )
        return only(judge(case(), plays(oracle), plays(subject))).shape

    assert shape("11") == shape("260")
    assert "|exchanges[*].body.prompt_logprobs[*][*].rank|" in shape("11")


# Ties.


def tied(token: str, other: str) -> Serve:
    logprobs = listed(FIRST, (token, -1.1, {other: -1.1001}))
    return serve(answer(completion(choice(logprobs, ">" + token), tokens=2)))


def test_a_tie_is_told_and_is_no_finding() -> None:
    judged = judge(case(), plays(tied("(", "e")), plays(tied("e", "(")))

    assert judged.findings == ()
    assert [(tie.exchange, tie.choice, tie.position) for tie in judged.ties] == [("a", 0, 1)]


def test_a_side_that_breaks_its_own_ties_in_another_way_agrees_with_itself() -> None:
    both = plays(tied("(", "e"), tied("e", "("))

    judged = judge(case(), both, plays(tied("e", "(")))

    assert (judged.flaky, judged.findings) == (None, ())


def test_a_side_whose_log_probabilities_wander_disagrees_with_itself_beyond_the_tolerance() -> None:
    assert judge(case(), plays(whole(), whole(1e-4)), plays(whole())).flaky is None
    flaky = judge(case(), plays(whole(), whole(1e-3)), plays(whole())).flaky
    assert flaky is not None
    assert "token_logprobs[0]" in flaky


# Outcome sets: a signal while a request is stuck.

ABORTED = stopped(answer(completion(choice(reason="abort"), tokens=0), "stuck"))
FAILED = stopped(answer({"error": {"type": "InternalServerError"}}, "stuck", status=500))
ALIVE = stopped(lost("unanswered", "stuck"), ended=ended("alive", None))


def race(*oracle: Serve, subject: tuple[Serve, ...] = (ABORTED, ABORTED), known: Any = frozenset()) -> Judged:
    return judge(case(*STUCK, outcomes=2), plays(*oracle), plays(*subject), known=known)


def prints(judged: Judged) -> set[str]:
    return {item.fingerprint for item in judged.findings}


def test_what_only_an_outcome_of_the_oracle_breaks_is_theirs_one_finding_a_property() -> None:
    assert brief(race(ALIVE, ABORTED)) == [
        ("theirs", "answers", "exchanges[0].ending"),
        ("theirs", "exits-on-signal", "ended.state"),
    ]


def test_its_fingerprint_does_not_depend_on_which_other_outcomes_showed() -> None:
    known = frozenset({digest(ABORTED)})

    assert (
        prints(race(ALIVE, ABORTED))
        == prints(race(ALIVE, ALIVE, known=known))
        == prints(race(FAILED, ALIVE, known=known))
    )


def test_where_none_of_them_shows_there_is_no_finding() -> None:
    assert race(ABORTED, FAILED).findings == ()


def test_an_outcome_of_the_subject_that_the_oracle_never_showed_is_a_difference() -> None:
    assert brief(race(FAILED, FAILED)) == [("ours", None, "outcomes")]
    assert race(FAILED, FAILED, known=frozenset({digest(ABORTED)})).findings == ()


def answered(status: int, value: float) -> Serve:
    told = completion(choice(listed((">", value, {" t": -2.0})), ">"), tokens=1)
    return serve(answer({}, status=status), answer(told, "b"))


@pytest.mark.parametrize("value", [-0.1, -9.0])
def test_an_outcome_on_record_does_not_excuse_log_probabilities_that_nobody_can_compare(value: float) -> None:
    one = case(send("a"), send("b"), outcomes=2)
    usual, other = answered(400, -0.1), answered(500, -0.1)
    known = frozenset({digest(other)})

    judged = judge(one, plays(usual), plays(usual, answered(500, value)), known=known)

    assert brief(judged) == [("ours", None, "outcomes")]


def test_of_an_outcome_that_both_sides_show_the_log_probabilities_are_compared() -> None:
    one = case(send("a"), send("b"), outcomes=2)
    usual, other = answered(400, -0.1), answered(500, -0.1)

    assert judge(one, plays(usual, other), plays(other)).findings == ()
    assert brief(judge(one, plays(usual, other), plays(usual, answered(500, -9.0)))) == [
        ("ours", None, "exchanges[1].body.choices[0].logprobs.token_logprobs[0]")
    ]
    stray = answered(422, -0.1)
    assert [item[2] for item in brief(judge(one, plays(usual), plays(stray, answered(400, -9.0))))] == [
        "outcomes",
        "exchanges[1].body.choices[0].logprobs.token_logprobs[0]",
    ]


def test_such_a_difference_stands_beside_what_is_theirs() -> None:
    assert [item[0] for item in brief(race(ALIVE, ALIVE))] == ["theirs", "theirs", "ours"]


def test_the_same_break_on_both_sides_is_mirrored() -> None:
    assert brief(race(ALIVE, ABORTED, subject=(ALIVE, ABORTED))) == [
        ("mirrored", "answers", "exchanges[0].ending"),
        ("mirrored", "exits-on-signal", "ended.state"),
    ]


def test_a_break_of_the_subject_that_is_the_oracles_on_record_is_mirrored_all_the_same() -> None:
    both = race(ALIVE, ALIVE, subject=(ALIVE, ALIVE))
    alone = race(ABORTED, ABORTED, subject=(ALIVE, ALIVE), known=frozenset({digest(ALIVE)}))

    assert prints(alone) == prints(both)


def test_a_break_of_the_subject_in_an_outcome_of_its_own_is_ours() -> None:
    assert brief(race(ABORTED, ABORTED, subject=(ALIVE, ABORTED))) == [
        ("ours", "answers,exits-on-signal", "outcomes")
    ]


def test_another_way_to_break_the_same_promise_is_another_finding() -> None:
    orphans = msgspec.structs.replace(ABORTED, ended=ended(orphans=1))

    assert brief(race(orphans, ALIVE, subject=(orphans, ABORTED), known=frozenset({digest(ABORTED)}))) == [
        ("theirs", "answers", "exchanges[0].ending"),
        ("theirs", "exits-on-signal", "ended.state"),
        ("mirrored", "exits-on-signal", "ended.orphans"),
    ]


def test_outcomes_are_told_with_and_without_a_finding() -> None:
    judged = race(ALIVE, ABORTED)

    assert [(seen.count, seen.summary, seen.breaks) for seen in judged.oracle_outcomes.values()] == [
        (1, "stuck: unanswered; process alive", ("answers", "exits-on-signal")),
        (1, "stuck: 200 abort; process exited 0", ()),
    ]
    assert judged.oracle_outcomes == judged.findings[0].oracle_outcomes
    assert list(race(ABORTED).subject_outcomes) == [digest(ABORTED)]
    assert judge(case(), plays(whole()), plays(whole())).oracle_outcomes == {}


def test_a_known_outcome_is_no_excuse_where_one_observation_is_expected() -> None:
    judged = judge(
        case(), plays(whole()), plays(serve(lost("silent"))), known=frozenset({digest(serve(lost("silent")))})
    )

    assert [item.attribution for item in judged.findings] == ["ours"]

"""Edges of the comparison and of the decision that no whole observation of the suite comes to."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from parity.diff import first_difference, logprob_differences
from parity.finding import Difference, Verdict
from parity.fingerprint import difference_shape
from parity.numerics import TOLERANCE
from parity.observation import Choice, Schedule, decode, plain
from parity.properties import broken_properties, closing_steps
from parity.serve_shapes import exchange_event
from parity.ties import settle
from parity.token_lists import token_list
from parity.verdicts import decide
from tests.parity.served import (
    answer,
    choice,
    completion,
    folded,
    listed,
    script,
    serve,
    streamed,
    usage,
)
from tests.records.miniature import case, context, empty_step, finding, judged, plan, record, schedule, step

HERE = "auto-fit/null-block"


@pytest.mark.parametrize("observation", [plan(), schedule(step(), empty_step()), serve(answer({}))])
def test_plain_json_is_the_observation_that_it_was(observation: Any) -> None:
    level = "serve" if hasattr(observation, "exchanges") else "schedule"
    level = "plan" if hasattr(observation, "num_blocks") else level

    assert decode(level, plain(observation)) == observation


@pytest.mark.parametrize(("oracle", "subject", "kind"), [(0.0, -0.0, "less"), (-0.0, 0.0, "greater")])
def test_two_zeros_differ_by_their_sign(oracle: float, subject: float, kind: str) -> None:
    found = first_difference({"a": oracle}, {"a": subject})

    assert found is not None
    assert found.kind == kind


@pytest.mark.parametrize("key", ["logprobs", "prompt_logprobs", "token_logprobs", "top_logprobs", "logprob"])
def test_each_key_of_log_probabilities_gives_tolerance_by_itself(key: str) -> None:
    assert first_difference({key: [-1.0]}, {key: [-1.0 - TOLERANCE / 2]}) is None
    assert first_difference({key: [-1.0]}, {key: [-1.0 - TOLERANCE * 2]}) is not None


@pytest.mark.parametrize(("oracle", "subject"), [(-1.0, None), (-1.0, "x"), (None, -1.0)])
def test_what_is_no_number_on_one_side_is_left_to_the_digest(oracle: Any, subject: Any) -> None:
    assert list(logprob_differences({"logprobs": [oracle]}, {"logprobs": [subject]})) == []


def test_a_livelock_longer_than_what_was_seen_is_about_all_of_it() -> None:
    assert closing_steps(schedule(step(), step(), end="livelock", period=5)) == range(2)


def test_a_timeline_at_its_limit_with_nobody_left_has_no_role() -> None:
    limit = schedule(step(finished=[("a", "length", None)], free_after=9), end="limit")

    (broken,) = broken_properties(case(level="schedule").scenario, limit)

    assert (broken.property, broken.role) == ("terminates", "-")


@pytest.mark.parametrize("path", ["exchanges", ""])
def test_a_place_above_the_exchanges_is_in_none_of_them(path: str) -> None:
    one = serve(answer({}))
    found = difference_shape(script(), "ours", (), Difference(path, 1, 2, "longer"), one, one)

    assert (found.event, found.role) == (path or "-", "-")


def test_an_answer_without_a_status_has_only_its_ending() -> None:
    assert exchange_event(answer({}, status=None)) == "answered"


def test_an_exemplar_that_changed_shows_behind_a_claim_of_another_record() -> None:
    mirrored, other = finding(1), finding(2, "ours")
    moved = msgspec.structs.replace(mirrored, oracle=1, subject=1)
    records = [record(other, name="auto-fit/another"), record(mirrored, name="auto-fit/decided")]

    outcome = decide([judged(HERE, other, moved)], records, context())

    verdicts = {item.finding.fingerprint: item.verdict for item in outcome.scenarios[0].decided}
    assert verdicts == {other.fingerprint: Verdict.COVERED, mirrored.fingerprint: Verdict.CHANGED}


def test_streams_of_other_choices_have_no_ties() -> None:
    oracle = answer(None, stream=streamed(folded(0)))
    subject = answer(None, stream=streamed(folded(1)))

    settled, ties = settle(serve(oracle), serve(subject))

    assert (settled, ties) == (serve(subject), [])


@pytest.mark.parametrize("key", ["token_logprobs", "top_logprobs", "text_offset"])
def test_lists_of_unequal_length_are_no_list_of_tokens(key: str) -> None:
    whole = listed((">", -1.0, {}), ("(", -1.1, {}))
    short = {**whole, key: whole[key][:1]}

    assert token_list(choice(whole)) is not None
    assert token_list(choice(short)) is None


def test_the_first_malformed_choice_is_told() -> None:
    endless = [Choice(index, ["tokens"], {"index": index}, None) for index in (0, 1)]
    one = serve(answer(None, stream=streamed(*endless)))

    (broken,) = broken_properties(script(), one)

    assert (broken.property, broken.at) == ("stream-is-well-formed", "exchanges[0].stream.choices[0].kinds")


def test_the_last_usage_of_a_stream_is_what_adds_up_or_does_not() -> None:
    made = folded(joined={"index": 0, "token_ids": [1, 2], "finish_reason": "length"})
    wrong, right = {"choices": [], "usage": usage(6, 9)}, {"choices": [], "usage": usage(6, 2)}

    def names(*rest: Any) -> list[str]:
        one = serve(answer(None, stream=streamed(made, rest=[*rest, "[DONE]"], usage="alone")))
        return [item.property for item in broken_properties(script(), one)]

    assert names(wrong, right) == []
    assert names(right, wrong) == ["usage-adds-up"]


def test_what_is_held_after_the_script_is_an_event_of_its_own() -> None:
    one = serve(answer(completion(choice())))
    held = msgspec.structs.replace(one, after=msgspec.structs.replace(one.after, running=1))

    (broken,) = broken_properties(script(), held)

    assert (broken.property, broken.at, broken.event) == ("frees-after-disconnect", "after.running", "after")


def test_a_schedule_is_decoded_as_one() -> None:
    assert isinstance(decode("schedule", plain(schedule(step()))), Schedule)

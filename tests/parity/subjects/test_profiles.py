"""What a profile leaves open, and that it leaves open nothing else."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parity.judge import judge
from parity.levels import PROPERTIES
from parity.observation import Choice, Schedule, Step, Stream
from parity.properties import broken_properties
from parity.scenario import Case
from parity.subjects import profiles
from parity.subjects.fields import FIELDS
from tests.parity.served import answer, case, choice, completion, ended, serve, usage
from tests.parity.subjects.kit import lens, timelines
from tests.records.miniature import LAST, plan, plays, schedule, step
from tests.records.miniature import case as a_timeline

IDS = range(4)  # few enough to try every bijection
Tables = list[
    tuple[list[list[int]], list[int]]
]  # a step: the table of each request, and the blocks evicted in it

tables: st.SearchStrategy[Tables] = st.lists(
    st.tuples(
        st.lists(st.lists(st.sampled_from(IDS), max_size=3, unique=True), max_size=2),
        st.lists(st.sampled_from(IDS), max_size=2, unique=True).map(sorted),
    ),
    max_size=3,
)


def timeline(steps: Tables) -> Schedule:
    return schedule(
        *(
            step(blocks=[(f"r{at}", table) for at, table in enumerate(held)], evicted=evicted)
            for held, evicted in steps
        )
    )


def renamed(steps: Tables, names: tuple[int, ...]) -> Tables:
    return [
        ([[names[block] for block in table] for table in held], sorted(names[block] for block in evicted))
        for held, evicted in steps
    ]


def in_form(profile: str, *steps: Step, **ends: Any) -> Schedule:
    seen = profiles.apply(profile, schedule(*steps, **ends))
    assert isinstance(seen, Schedule)
    return seen


@given(tables, st.permutations(IDS))
def test_blocks_under_any_other_names_are_the_same_renamed(steps: Tables, names: list[int]) -> None:
    left, right = timeline(steps), timeline(renamed(steps, tuple(names)))

    assert profiles.apply("renamed", left) == profiles.apply("renamed", right)


@given(tables, tables)
def test_what_no_bijection_makes_equal_stays_different(left: Tables, right: Tables) -> None:
    is_one = any(renamed(left, names) == right for names in permutations(IDS))

    same = profiles.apply("renamed", timeline(left)) == profiles.apply("renamed", timeline(right))

    assert same is is_one


@given(tables, st.permutations(IDS), st.data())
def test_a_block_that_is_another_in_one_place_stays_a_difference(
    steps: Tables, names: list[int], data: st.DataObject
) -> None:
    """One place of the renamed timeline has another block: equal only if another bijection happens to do it too."""
    changed = renamed(steps, tuple(names))
    held = [table for tables_, _ in changed for table in tables_ if table]
    if not held:
        return
    table = data.draw(st.sampled_from(held))
    table[data.draw(st.integers(0, len(table) - 1))] = data.draw(st.sampled_from(IDS))
    is_one = any(renamed(steps, other) == changed for other in permutations(IDS))

    same = profiles.apply("renamed", timeline(steps)) == profiles.apply("renamed", timeline(changed))

    assert same is is_one


def test_no_block_has_the_null_blocks_name_so_none_is_missed_among_those_held() -> None:
    """A subject may hand out its block 0, which is then held like any other."""
    mine, theirs = (schedule(step(blocks=[("a", [block])]), LAST) for block in (0, 3))
    sight = lens("schedule", profile="renamed")
    of = a_timeline("preemption/miniature", "schedule")

    judged = judge(of, *(sight.plays(plays(one)) for one in (theirs, mine)))

    assert judged.findings == ()
    assert judged.failure is None


@pytest.mark.parametrize("profile", profiles.PROFILES)
def test_what_is_judged_is_judged_as_in_the_exact_form(profile: str, suite: list[Case]) -> None:
    """Every timeline of the suite: the same promises are broken, without those that the profile leaves open."""
    sight = lens("schedule", profile=profile)
    broken: set[str] = set()
    for of, played in timelines(suite):
        exact = {item.property for item in broken_properties(of.scenario, played)}
        seen = sight.observation(played)
        left = {item.property for item in broken_properties(of.scenario, seen, waived=sight.unjudged)}
        assert left == exact - set(sight.unjudged), of.id
        broken |= left

    assert "terminates" in broken


def test_counts_tell_how_many_blocks_and_not_which() -> None:
    left = [step(blocks=[("a", [1, 2]), ("b", [3])], evicted=[2])]

    assert in_form("counts", *left) == in_form(
        "counts", step(blocks=[("a", [7, 1]), ("b", [7])], evicted=[9])
    )
    for other in ([("a", [1]), ("b", [3])], [("a", [1, 2])], [("b", [3]), ("a", [1, 2])]):
        assert in_form("counts", *left) != in_form("counts", step(blocks=other, evicted=[2]))
    assert in_form("counts", *left) != in_form("counts", step(blocks=[("a", [1, 2]), ("b", [3])]))


def test_totals_do_not_tell_in_which_step_and_do_tell_how_much() -> None:
    early = [
        step(scheduled=[("b", 4), ("a", 3)], cached=[("a", 2)], preempted=["a"]),
        step(scheduled=[("a", 1)], cached=[("a", 1)], preempted=["a"], finished=[("b", "stop", 7)]),
    ]
    late = [
        step(scheduled=[("a", 4)], blocks=[("a", [9])], free=0, running=["b"]),
        step(cached=[("a", 3)], scheduled=[], preempted=["a", "a"], evicted=[3]),
        step(scheduled=[("b", 4)], finished=[("b", "stop", 7)]),
    ]
    outputs = [("a", 2), ("b", 1)]

    def totals(steps: list[Step], **changes: Any) -> Schedule:
        whole = schedule(*steps, end="livelock", period=len(steps))
        end = msgspec.structs.replace(whole.end, outputs=outputs)
        seen = profiles.apply("aggregate", msgspec.structs.replace(whole, end=end, **changes))
        assert isinstance(seen, Schedule)
        return seen

    assert totals(early) == totals(late)
    (total,) = totals(early).steps
    assert total.scheduled == [("a", 4), ("b", 4)]
    assert total.cached == [("a", 3)]
    assert total.preempted == ["a", "a"]
    assert total.finished == [("b", "stop", 7)]
    for changed in (
        [*late, step(scheduled=[("a", 1)])],
        [*late, step(scheduled=[], cached=[("b", 1)])],
        [*late, step(scheduled=[], preempted=["b"])],
        [*late, step(scheduled=[], finished=[("a", "length", None)])],
    ):
        assert totals(changed) != totals(late)
    assert totals(late, plan=plan(num_blocks=11)) != totals(late)


@pytest.mark.parametrize("profile", profiles.PROFILES)
def test_a_plan_is_the_same_in_every_profile(profile: str) -> None:
    assert profiles.apply(profile, plan()) == plan()


def test_a_request_that_nobody_asked_for_is_in_the_totals() -> None:
    """A subject may say anything: what is in no output comes last, and is a difference like another."""
    stray = step(
        scheduled=[("z", 1), ("y", 2), ("a", 1)],
        cached=[("z", 5)],
        preempted=["z"],
        finished=[("z", "stop", None), ("a", "stop", None)],
    )

    (total,) = in_form("aggregate", stray).steps

    assert total.scheduled == [("a", 1), ("y", 2), ("z", 1)]
    assert (total.cached, total.preempted) == ([("z", 5)], ["z"])
    assert total.finished == [("a", "stop", None), ("z", "stop", None)]


SCRIPT = serve(
    answer(completion(choice(None, "abc"), tokens=3), headers={"content-type": "application/json"}),
    answer({"error": {"type": "BadRequest", "param": None, "code": 400}}, "b", status=400),
    answer(
        None,
        "c",
        stream=Stream(
            [Choice(0, ["tokens", "finish"], {"text": "abc"}, {"finish_reason": "stop", "text": None})],
            [{"usage": usage(6, 3)}, "[DONE]"],
            "last",
        ),
    ),
    answer("no JSON at all", "d", status=500),
    answer(None, "e", ending="silent", status=None),
    preempted=True,
)


def test_the_totals_of_a_script_are_status_usage_reasons_and_counters() -> None:
    seen = profiles.apply("aggregate", SCRIPT)

    shown = msgspec.to_builtins(seen)
    assert [(one["ending"], one["status"]) for one in shown["exchanges"]] == [
        *(("answered", 200), ("answered", 400), ("answered", 200), ("answered", 500), ("silent", None))
    ]
    assert shown["exchanges"][0]["body"] == {"usage": usage(6, 3), "choices": ["length"]}
    assert shown["exchanges"][1]["body"] == {"error": {"type": "BadRequest", "param": None, "code": 400}}
    (streamed,) = shown["exchanges"][2]["stream"]["choices"]
    assert (streamed["finish"], shown["exchanges"][2]["stream"]["rest"]) == ("stop", [usage(6, 3)])
    assert (shown["preempted"], shown["after"]) == (True, {"running": 0, "waiting": 0, "cache_in_use": False})


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        ({"preempted": False}, True),
        ({"after": None}, True),
        ({"health": [503]}, False),
        ({"ended": ended()}, False),
        ({"conditions": [True]}, False),
    ],
)
def test_of_a_whole_script_the_totals_keep_the_counters_alone(changes: Any, differs: bool) -> None:
    other = msgspec.structs.replace(SCRIPT, **changes)

    assert (profiles.apply("aggregate", other) != profiles.apply("aggregate", SCRIPT)) is differs


@pytest.mark.parametrize(
    ("body", "differs"),
    [
        (completion(choice(None, "another text"), tokens=3), False),
        (completion(choice(None, "abc", reason="stop"), tokens=3), True),
        (completion(choice(None, "abc"), tokens=4), True),
        (completion(choice(None, "abc"), choice(None, "abc"), tokens=3), True),
    ],
)
def test_of_an_answer_the_totals_keep_usage_and_reasons(body: Any, differs: bool) -> None:
    of = case()
    sight = lens("serve", profile="aggregate")
    seen = msgspec.structs.replace(of, waive=sight.waivers())
    sides = (serve(answer(completion(choice(None, "abc"), tokens=3))), serve(answer(body)))

    judged = judge(seen, *(sight.plays(plays(one)) for one in sides))

    assert bool(judged.findings) is differs
    assert all(found.at.startswith("exchanges[0].body") for found in judged.findings)


def test_streams_are_judged_in_their_totals_without_ties_or_texts() -> None:
    of = case()
    sight = lens("serve", profile="aggregate")
    seen = msgspec.structs.replace(of, waive=sight.waivers())

    def streamed(text: str, reason: str) -> Any:
        frames = Choice(0, ["tokens", "finish"], {"text": text}, {"finish_reason": reason})
        return serve(answer(None, stream=Stream([frames], ["[DONE]"], "none")))

    def findings(*sides: Any) -> list[str]:
        return [found.at for found in judge(seen, *(sight.plays(plays(one)) for one in sides)).findings]

    assert findings(streamed("abc", "stop"), streamed("abd", "stop")) == []
    assert findings(streamed("abc", "stop"), streamed("abc", "length")) == [
        "exchanges[0].stream.choices[0].finish"
    ]


def test_every_profile_leaves_fields_of_the_level_and_properties_of_it_alone() -> None:
    for profile in profiles.PROFILES:
        for level, names in FIELDS.items():
            assert profiles.taken(profile, level) <= set(names)
            assert set(lens(level, profile=profile).unjudged) <= set(PROPERTIES[level])

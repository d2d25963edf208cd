"""What is not seen is the same on both sides, is counted, and is judged by no property."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from parity.judge import judge
from parity.levels import PROPERTIES
from parity.observation import (
    Answer,
    End,
    Observation,
    PlanError,
    PlanOk,
    Schedule,
    Serve,
    Step,
    decode,
    plain,
)
from parity.scenario import Case
from parity.subjects import profiles
from parity.subjects.blank import blank
from parity.subjects.fields import FIELDS, MINIMUM, below_minimum, unobserved
from parity.subjects.lens import Lens, both, lens_over
from tests.parity.served import answer, completion, serve
from tests.parity.served import case as served_case
from tests.parity.stand_in import untouched_plays
from tests.parity.subjects.kit import lens, timelines
from tests.records.miniature import FIRST, LAST, case, empty_step, plan, plays, schedule, step

REFUSED = PlanError(["a warning"], "kv-cache-too-small", 48)
SERVED = serve(answer(completion()), answer(None, "b", status=404), preempted=True)
OF_LEVEL: dict[str, Observation] = {
    "plan": plan(warnings=["a warning"]),
    "schedule": schedule(FIRST, LAST, end="stall"),
    "serve": SERVED,
}
EVERY_FIELD = [(level, name) for level, names in FIELDS.items() for name in names]


def values_of(observation: Any, name: str) -> list[Any]:
    """The values that a field's name stands for; none where this observation has no such field."""
    parts: list[Any] = [observation]
    *prefix, field = name.split(".")
    for key in prefix:
        parts = [getattr(part, key) for part in parts]
        parts = [item for part in parts for item in (part if isinstance(part, list) else [part])]
    if field == "status" and isinstance(parts[0], PlanOk | PlanError):
        return ["ok" if isinstance(part, PlanOk) else "error" for part in parts]
    return [getattr(part, field) for part in parts if field in part.__struct_fields__]


def test_the_fields_are_those_of_the_observations_and_no_other() -> None:
    of_plan = {"status", *PlanOk.__struct_fields__, *PlanError.__struct_fields__}

    assert set(FIELDS["plan"]) == of_plan
    assert set(FIELDS["schedule"]) == (
        {f"plan.{name}" for name in of_plan}
        | {f"steps.{name}" for name in Step.__struct_fields__}
        | {f"end.{name}" for name in End.__struct_fields__}
    )
    assert set(FIELDS["serve"]) == (
        {f"exchanges.{name}" for name in Answer.__struct_fields__ if name != "id"}
        | {name for name in Serve.__struct_fields__ if name != "exchanges"}
    )
    assert all(set(MINIMUM[level]) < set(FIELDS[level]) for level in FIELDS)


def test_a_level_that_is_left_out_is_seen_whole_and_one_that_is_empty_not_at_all() -> None:
    observes: dict[Any, list[str]] = {"plan": ["status"], "serve": []}

    assert unobserved(observes, "schedule") == ()
    assert unobserved(observes, "serve") == FIELDS["serve"]
    assert unobserved(observes, "plan") == tuple(name for name in FIELDS["plan"] if name != "status")
    assert [below_minimum(observes, level) for level in FIELDS] == [(), (), MINIMUM["serve"]]
    assert lens_over(observes, "counts", "serve") == Lens("serve", "counts", frozenset(FIELDS["serve"]))


def test_a_blank_fits_its_field_and_is_nobody_elses_to_change() -> None:
    for struct in (PlanOk, PlanError, Step, End):
        blanks = {name: blank(struct, name) for name in struct.__struct_fields__}
        assert msgspec.convert(msgspec.to_builtins(struct(**blanks)), struct) == struct(**blanks)

    blank(Step, "running").append("a")

    assert blank(Step, "running") == []


@pytest.mark.parametrize(("level", "name"), EVERY_FIELD)
def test_a_field_that_is_not_seen_is_blank_on_both_sides_and_every_other_is_as_it_was(
    level: str, name: str
) -> None:
    observation = OF_LEVEL[level]
    if name.removeprefix("plan.") in set(PlanError.__struct_fields__) - set(PlanOk.__struct_fields__):
        observation = REFUSED if level == "plan" else Schedule(REFUSED, [], End("refused", None, None, []))

    seen = lens(level, name).observation(observation)

    other = lens(level, name).observation(blanked_otherwise(level, name, observation))
    assert seen == other
    if name not in ("status", "plan.status"):
        assert observation != blanked_otherwise(level, name, observation)
        for kept in FIELDS[level]:  # type: ignore[index]
            assert (values_of(seen, kept) == values_of(observation, kept)) or kept == name


def blanked_otherwise(level: str, name: str, observation: Observation) -> Observation:
    """The observation with another value in that field, as the other side might have it."""
    raw = plain(observation)
    if name in ("status", "plan.status"):
        refused = plain(REFUSED)
        return decode(level, refused if level == "plan" else {**raw, "plan": refused})
    *prefix, field = name.split(".")
    parts: list[Any] = [raw]
    for key in prefix:
        parts = [
            item for part in parts for item in (part[key] if isinstance(part[key], list) else [part[key]])
        ]
    for part in parts:
        if field in part:
            part[field] = not part[field] if isinstance(part[field], bool) else OTHERS[field]
    return decode(level, raw)


OTHERS: dict[str, Any] = {
    **{key: ["another"] for key in ("warnings", "new", "resumed", "preempted", "running", "waiting")},
    **dict.fromkeys(("bytes_per_block", "num_blocks", "usable_blocks", "max_model_len"), 7),
    "estimated_max_model_len": 7,
    **dict.fromkeys(("kv_cache_size_tokens", "free", "free_after", "period", "status"), 7),
    **{key: [["another", 7]] for key in ("aborted", "scheduled", "cached", "aborted_late", "outputs")},
    "concurrency": [7, 7],
    "concurrency_label": "7x",
    "reset": [True],
    "evicted": [7],
    "blocks": [["another", [7]]],
    "finished": [["another", "stop", 7]],
    "kind": "livelock",
    "error": "Another",
    "ending": "left",
    "headers": {"a": "b"},
    "body": "another",
    "stream": {"choices": [], "rest": [], "usage": "none"},
    "health": [503],
    "conditions": [True],
    "after": None,
    "ended": {"state": "alive", "code": None, "orphans": 0},
}


def test_a_field_that_is_claimed_and_missing_is_a_fault_of_the_answer() -> None:
    raw = plain(OF_LEVEL["schedule"])
    del raw["steps"][1]["free"], raw["steps"][1]["blocks"]
    sight = lens("schedule", "steps.blocks")

    with pytest.raises(msgspec.ValidationError, match=r"missing required field `free` - at `\$.steps\[1\]`"):
        decode("schedule", sight.complete(raw))


@pytest.mark.parametrize("level", FIELDS)
def test_an_answer_without_what_is_not_seen_is_whole_again_with_blanks(level: Any) -> None:
    minimum = set(MINIMUM[level]) | ({"plan.status"} if level == "schedule" else set())
    sight = lens(level, *(name for name in FIELDS[level] if name not in minimum))
    seen = sight.observation(OF_LEVEL[level])

    raw = sight.shown(plain(seen))

    assert decode(level, sight.complete(raw)) == seen
    assert len(str(raw)) < len(str(plain(seen))) / 2, "the blanks are left out"


def test_a_refusal_is_told_from_a_plan_whatever_else_is_seen_of_it() -> None:
    sight = lens("plan", *(name for name in FIELDS["plan"] if name != "status"))

    (found,) = judge(case(), *(sight.plays(plays(one)) for one in (plan(), REFUSED)), mirrors=False).findings

    assert (found.at, found.oracle, found.subject) == ("status", "ok", "error")
    assert decode("plan", sight.complete({"status": "error"})) == sight.observation(REFUSED)


@pytest.mark.parametrize(
    "raw",
    [
        None,
        [],
        {},
        {"steps": 3},
        {"plan": 3, "steps": [3], "end": None},
        {"exchanges": 3},
        {"exchanges": [3]},
    ],
)
@pytest.mark.parametrize("level", FIELDS)
def test_an_answer_that_is_none_is_refused_when_it_is_read_and_crashes_nothing(level: Any, raw: Any) -> None:
    sight = lens(level, *(name for name in FIELDS[level] if name not in ("status", "plan.status")))

    with pytest.raises(msgspec.ValidationError):
        decode(level, sight.complete(raw))


def test_what_is_not_seen_is_counted_once_for_each_place_that_has_it() -> None:
    """Two steps, a plan that came out, and two exchanges: what a plan that did not has is no value of these."""
    timeline, refused = OF_LEVEL["schedule"], schedule(FIRST)

    assert lens("schedule", "steps.free", "steps.blocks", "end.period").unobserved(timeline) == 2 * 2 + 1
    assert lens("schedule", "plan.kind", "plan.num_blocks").unobserved(timeline) == 1
    assert lens("serve", "exchanges.body", "health").unobserved(SERVED) == 2 + 1
    assert lens("plan", "kind", "estimated_max_model_len", "num_blocks").unobserved(REFUSED) == 2
    every = lens("plan", *FIELDS["plan"])
    assert every.unobserved(every.observation(REFUSED)) == 1 + len(PlanOk.__struct_fields__)
    assert Lens("schedule", "counts", frozenset()).unobserved(refused) == 0


def test_every_property_rests_on_something_and_is_not_judged_without_it() -> None:
    for level, names in PROPERTIES.items():
        assert set(lens(level, *FIELDS[level]).unjudged) == set(names)
        assert lens(level).unjudged == ()
    assert lens("schedule", "steps.free").unjudged == ("no-block-leak",)
    assert lens("schedule", "steps.new").unjudged == ()
    assert lens("schedule", profile="renamed").unjudged == ()
    assert lens("schedule", profile="counts").unjudged == ("no-block-leak",)
    assert lens("plan", profile="aggregate").unjudged == ()
    assert set(lens("serve", profile="aggregate").unjudged) == set(PROPERTIES["serve"]) - {
        "answers",
        "frees-after-disconnect",
    }


@pytest.mark.parametrize(("level", "name"), EVERY_FIELD)
def test_a_property_that_is_judged_is_judged_as_if_all_were_seen(
    level: Any, name: str, suite: list[Case]
) -> None:
    """The scenarios of the suite that break one, whatever one field is hidden."""
    sight = lens(level, name)
    for case_ in suite:
        if case_.scenario.level != level or level == "serve":
            continue
        observation = untouched_plays()[case_.id].observation
        assert observation is not None
        whole = found_in(case_, lens(level), observation)
        if whole:
            assert found_in(case_, sight, observation) == whole - set(sight.unjudged), case_.id


def found_in(of: Case, sight: Lens, observation: Observation) -> set[str]:
    """The properties that both sides break, where both did this."""
    seen = msgspec.structs.replace(of, waive=[*of.waive, *sight.waivers()])
    side = sight.plays(plays(observation))
    return {str(finding.property) for finding in judge(seen, side, side).findings}


def test_a_leak_that_is_not_seen_is_no_finding_and_one_that_is_is() -> None:
    """Side by side: blocks 7 free of 9 with one held."""
    leaks = step(free=7, finished=[("a", "length", None)], free_after=9)
    sound = step(finished=[("a", "length", None)], free_after=9)
    of = case("preemption/leak", "schedule")

    def findings(sight: Lens) -> list[tuple[str, str | None, str]]:
        seen = msgspec.structs.replace(of, waive=[*of.waive, *sight.waivers()])
        sides = (sight.plays(plays(schedule(FIRST, last))) for last in (sound, leaks))
        return [(one.attribution, one.property, one.at) for one in judge(seen, *sides).findings]

    assert findings(lens("schedule")) == [("ours", "no-block-leak", "steps[1].free")]
    assert findings(lens("schedule", "steps.free")) == []
    assert findings(lens("schedule", "steps.blocks")) == [("ours", None, "steps[1].free")]


@pytest.mark.parametrize("profile", profiles.PROFILES)
@pytest.mark.parametrize("name", [name for name in FIELDS["schedule"] if name.startswith(("steps.", "end."))])
def test_whatever_is_hidden_every_ending_is_judged_and_has_a_shape(profile: str, name: str) -> None:
    """Both sides alike, and the subject at another end: nothing about the blanks makes the judge fail."""
    of = case("preemption/ending", "schedule")
    sight = lens("schedule", name, profile=profile)
    seen = msgspec.structs.replace(of, waive=[*of.waive, *sight.waivers()])
    endings = [
        schedule(FIRST, LAST),
        schedule(FIRST, empty_step(), empty_step(), end="stall"),
        schedule(FIRST, empty_step(preempted=["a"]), empty_step(), end="livelock", period=2),
        schedule(FIRST, step(), end="limit"),
        schedule(FIRST, step(), end="error", error="AssertionError"),
        Schedule(REFUSED, [], End("refused", None, None, [("a", 0)])),
    ]
    for oracle in endings:
        for subject in endings:
            judged = judge(seen, *(sight.plays(plays(one)) for one in (oracle, subject)))

            assert judged.failure is None
            assert all(found.attribution != "harness" for found in judged.findings)
            differs = sight.observation(oracle) != sight.observation(subject)
            assert any(found.attribution != "mirrored" for found in judged.findings) == differs


def test_scripts_are_judged_with_whatever_is_hidden() -> None:
    of = served_case()
    ok, silent = serve(answer(completion())), serve(answer(None, ending="silent", status=None))
    for profile in ("exact", "aggregate"):
        for name in ("", *FIELDS["serve"]):
            sight = lens("serve", *([name] if name else []), profile=profile)
            seen = msgspec.structs.replace(of, waive=[*of.waive, *sight.waivers()])

            same = judge(seen, *(sight.plays(plays(ok)) for _ in range(2))).findings
            other = judge(seen, *(sight.plays(plays(one)) for one in (ok, silent))).findings

            assert same == ()
            assert {found.attribution for found in other} == {"ours"}


def test_two_lenses_hide_what_either_hides_in_the_coarser_form() -> None:
    first, second = lens("schedule", "steps.free", profile="renamed"), lens("schedule", "end.period")

    assert both(first, second) == both(second, first)
    assert both(first, second) == lens("schedule", "steps.free", "end.period", profile="renamed")
    assert both(first, lens("schedule", profile="aggregate")).profile == "aggregate"


def test_a_clear_lens_changes_nothing(suite: list[Case]) -> None:
    sight = lens("schedule")

    assert sight.is_clear
    for _, timeline in timelines(suite):
        assert sight.observation(timeline) is timeline
        assert sight.unobserved(timeline) == 0
        break

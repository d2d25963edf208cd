"""`parity smoke`: is what a subject claims exercised, and whose is what goes wrong? Judged from plays, with no upstream.

The adapter is at fault where it breaks the protocol or the schema, disagrees with itself, or claims what it does not
do: a capability that every scenario which tells of it shows to be ignored, or a field that is blank wherever upstream's is not.
The engine is at fault, and that is for `parity run` and the records, where it does something else than upstream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from parity.finding import Difference
from parity.observation import End, Observation, PlanError, PlanOk, Schedule, Step
from parity.outcomes import difference_of
from parity.scenario import Level, Scenario
from parity.side import Play
from parity.subjects.adapter import claimed, shown, stepping
from parity.subjects.blank import blank
from parity.subjects.fields import FIELDS
from parity.subjects.golden import Golden
from parity.subjects.ignoring import SHOWS_IN, without
from parity.subjects.lens import Lens, lens_over
from parity.subjects.subject import Subject

# What an engine shows only if it comes to the same pass as upstream; the other fields say something whatever happens.
CONSEQUENCES = frozenset(
    {
        "warnings",
        "kind",
        "estimated_max_model_len",
        "resumed",
        "preempted",
        "evicted",
        "waiting",
        "period",
        "error",
    }
)

What = Literal["door", "scenario", "capability", "field"]
State = Literal["ok", "differs", "broken", "flaky", "unmet", "unexercised"]


class Line(msgspec.Struct, frozen=True):
    """One thing that was looked at, and how it went.

    ok           as it should be
    differs      not what upstream does: the engine's
    broken       no answer, or none that can be trusted: the adapter's
    flaky        another answer to the same question: the adapter's
    unmet        claimed, and not done or not shown: the adapter's
    unexercised  claimed, and nothing here could tell
    """

    what: What
    name: str
    state: State
    detail: str = ""

    @property
    def is_adapters_fault(self) -> bool:
        return self.state in ("broken", "flaky", "unmet")


class Tried(msgspec.Struct, frozen=True):
    """A golden scenario that was played: upstream's observation and the subject's, both as they are compared.

    `seen` is null where the subject gave none, or not the same twice.
    """

    golden: Golden
    expected: Observation
    seen: Observation | None
    line: Line


def lens_of(subject: Subject, level: Level) -> Lens:
    return lens_over(subject.observes, subject.profile, level)


def examine(subject: Subject, golden: Golden, plays: Sequence[Play]) -> Tried:
    """One golden scenario, played at least twice by the subject."""
    lens = lens_of(subject, golden.scenario.level)
    expected = lens.observation(golden.observation)
    seen = [lens.observation(play.observation) for play in plays if play.observation is not None]
    failure = next((play for play in plays if play.failure is not None), None)
    if failure is not None:
        after = f" (after {len(failure.steps)} steps)" if failure.steps else ""
        line = Line("scenario", golden.id, "broken", f"{failure.failure}{after}")
        return Tried(golden, expected, None, line)
    for number, other in enumerate(seen[1:], start=2):
        if other != seen[0]:
            told = f"plays 1 and {number} differ{_at(difference_of(seen[0], other))}"
            return Tried(golden, expected, None, Line("scenario", golden.id, "flaky", told))
    found = difference_of(expected, seen[0])
    if seen[0] == expected:
        return Tried(golden, expected, seen[0], Line("scenario", golden.id, "ok"))
    told = f"upstream and the engine differ{_at(found)}"
    return Tried(golden, expected, seen[0], Line("scenario", golden.id, "differs", told))


def judge_claims(subject: Subject, tried: Sequence[Tried]) -> list[Line]:
    """How every capability and field that is claimed for the levels plan and schedule went."""
    return [
        *(_capability(subject, name, tried) for name in claimed(subject)),
        *(
            _field(level, name, [item for item in tried if item.golden.scenario.level == level])
            for level in stepping(subject)
            for name in shown(subject, level)
        ),
    ]


def _capability(subject: Subject, name: str, tried: Sequence[Tried]) -> Line:
    needing = [item for item in tried if name in item.golden.needs]
    counts = {"met": 0, "ignored": 0, "other": 0, "broken": 0}
    for item in needing:
        told = _tells(subject, name, item)
        if told is not None:
            counts[told] += 1
    telling = sum(counts.values())
    if not telling:
        why = "no scenario here tells of it" if needing else "no scenario that needs it could be played"
        return Line("capability", name, "unexercised", why)
    where = f"{telling} of {len(needing)} scenarios that need it tell"
    if counts["met"]:
        return Line("capability", name, "ok", f"{where}; as upstream in {counts['met']}")
    if counts["other"]:
        return Line("capability", name, "differs", f"{where}; as upstream in none")
    if counts["ignored"]:
        return Line("capability", name, "unmet", f"{where}; as if it were not there in all of them")
    return Line("capability", name, "unexercised", f"{where}; none gave an answer")


def _tells(subject: Subject, name: str, item: Tried) -> str | None:
    """What one scenario tells of a capability: met, ignored, other or broken; null where it tells nothing."""
    scenario: Scenario = item.golden.scenario
    field = _field_of(SHOWS_IN[name], scenario.level)
    lens = lens_of(subject, scenario.level)
    if field is None or field in lens.hidden:
        field = ""
    ignoring = lens.observation(without(name, scenario))
    expected, absent = _values(item.expected, field), _values(ignoring, field)
    if expected == absent:
        return None
    if item.seen is None:
        return "broken"
    seen = _values(item.seen, field)
    return "met" if seen == expected else "ignored" if seen == absent else "other"


def _field_of(name: str, level: Level) -> str | None:
    """A field of a schedule as the level calls it."""
    called = name if level == "schedule" else name.removeprefix("plan.")
    return called if called in FIELDS[level] else None


def _field(level: Level, name: str, tried: Sequence[Tried]) -> Line:
    what = f"{level}: {name}"
    places = [item for item in tried if is_told(item.expected, name)]
    if not places:
        return Line("field", what, "unexercised", "upstream's is blank in all that could be played")
    answered = [item.seen for item in places if item.seen is not None]
    if not answered:
        return Line("field", what, "unexercised", f"no answer in the {len(places)} scenarios that show it")
    told = sum(is_told(seen, name) for seen in answered)
    if not told:
        state: State = "differs" if _is_explained(places, name) else "unmet"
        return Line("field", what, state, f"blank in all {len(answered)} scenarios where upstream's is not")
    return Line("field", what, "ok", f"shown in {told} of {len(answered)} scenarios")


def _is_explained(places: Sequence[Tried], name: str) -> bool:
    """Whether an engine that does otherwise may well have nothing to show there: in no place is all else as upstream."""
    field = name.rpartition(".")[2]
    if field not in CONSEQUENCES:
        return False
    level = places[0].golden.scenario.level
    rest = Lens(level, "exact", frozenset({name}))
    return not any(
        item.seen is not None and rest.observation(item.seen) == rest.observation(item.expected)
        for item in places
    )


def is_told(observation: Observation, name: str) -> bool:
    """Whether a field is anything but blank, anywhere in an observation."""
    field = name.rpartition(".")[2]
    if field == "status":
        return True
    return any(
        getattr(part, field) != blank(type(part), field)
        for part in _parts(observation, name)
        if hasattr(part, field)
    )


def _values(observation: Observation, name: str) -> Any:
    """A field's values in an observation; the whole of it for no name."""
    if not name:
        return observation
    field = name.rpartition(".")[2]
    return [getattr(part, field, None) for part in _parts(observation, name)]


def _parts(observation: Observation, name: str) -> Iterator[PlanOk | PlanError | Step | End]:
    """The parts of an observation that may have the field."""
    if not isinstance(observation, Schedule):
        assert isinstance(observation, PlanOk | PlanError), "level serve has no golden lines"
        yield observation
        return
    where = name.partition(".")[0]
    if where == "steps":
        yield from observation.steps
    else:
        yield observation.plan if where == "plan" else observation.end


def _at(found: Difference | None) -> str:
    return "" if found is None else f" at {found.path}: {found.oracle} and {found.subject}"

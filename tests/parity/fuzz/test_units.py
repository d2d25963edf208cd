"""A unit gives the same wherever it is done; what is known is passed over, what is new is kept once."""

from __future__ import annotations

import msgspec
import pytest

from engine.scheduler import Scheduler
from parity.fuzz.document import Document
from parity.fuzz.known import Known
from parity.fuzz.search import Search
from parity.fuzz.unit import Done, Spent, Unit
from parity.fuzz.units import Bench, do
from tests.parity.fuzz.files import STUCK
from tests.parity.fuzz.twins import Fault, examiner, forgets_to_evict, frees_in_reverse

UNIT = Unit("schedule", 7, 0, 60)


def hunted(fault: Fault | None = None, known: Known | None = None, unit: Unit = UNIT) -> Done:
    everything = Known({}, {}) if known is None else known
    return do(unit, Bench(examiner(fault), everything))


def differences(done: Done) -> dict[str, str]:
    return {one.fingerprint: "any/record" for one in done.finds if one.attribution != "mirrored"}


def mirrored(done: Done) -> dict[str, str]:
    return {one.fingerprint: "some/record" for one in done.finds if one.attribution == "mirrored"}


def test_a_unit_done_twice_is_the_same_but_for_its_seconds() -> None:
    first, second = hunted(), hunted()

    assert first.scenarios > 0
    assert first.states
    assert msgspec.structs.replace(first, spent=Spent()) == msgspec.structs.replace(second, spent=Spent())


@pytest.mark.parametrize(
    "unit", [Unit("schedule", 7, 1, 60), Unit("schedule", 8, 0, 60), Unit("plan", 7, 0, 60)]
)
def test_another_index_another_seed_and_another_level_draw_otherwise(unit: Unit) -> None:
    assert hunted(unit=unit).states != hunted().states


def test_a_larger_unit_begins_as_a_smaller_one(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Document] = []
    draw = Search.draw

    def noted(self: Search) -> Document:
        drawn.append(draw(self))
        return drawn[-1]

    monkeypatch.setattr(Search, "draw", noted)
    hunted(unit=Unit("schedule", 7, 0, 20))
    hunted(unit=Unit("schedule", 7, 0, 40))

    assert len(drawn) == 60
    assert drawn[20:40] == drawn[:20]


def test_an_engine_against_itself_shows_mirrored_findings_alone() -> None:
    done = hunted()

    assert {one.attribution for one in done.finds} <= {"mirrored"}
    assert all(one.property in ("terminates", "no-block-leak") for one in done.finds)


def test_a_fault_is_found_with_the_scenario_that_showed_it() -> None:
    done = hunted(frees_in_reverse)

    ours = [one for one in done.finds if one.attribution == "ours"]
    assert ours
    again = examiner(frees_in_reverse).examine(ours[0].document)
    assert ours[0].fingerprint in {finding.fingerprint for finding in again.findings}


def test_what_records_have_is_counted_and_no_find() -> None:
    before = hunted(frees_in_reverse)
    known = Known(mirrored(before), differences(before))

    done = hunted(frees_in_reverse, known)

    assert differences(before)
    assert {one.fingerprint for one in done.finds}.isdisjoint(known.differences)
    assert done.known["any/record"] >= len(known.differences)


def test_behind_a_known_difference_another_fault_is_still_found() -> None:
    """All that the first fault shows is known; both together show what only the second does."""
    first = hunted(frees_in_reverse)
    known = Known(mirrored(first), differences(first))

    def both(patch: pytest.MonkeyPatch) -> None:
        frees_in_reverse(patch)
        forgets_to_evict(patch)

    done = hunted(both, known)

    assert done.behind["any/record"] > 0
    assert done.plays > done.scenarios
    assert [one for one in done.finds if one.attribution == "ours"]


def raises_when_it_preempts(patch: pytest.MonkeyPatch) -> None:
    """Where upstream waits for ever, this engine ends in an error."""

    def preempt(*_: object) -> None:
        raise ZeroDivisionError

    patch.setattr(Scheduler, "_preempt", preempt)


def test_a_promise_that_each_side_breaks_in_its_own_way_is_a_mirrored_finding_and_a_difference() -> None:
    judged = examiner(raises_when_it_preempts).examine(STUCK)

    mirrored_, difference = judged.findings
    assert (mirrored_.attribution, mirrored_.property) == ("mirrored", "terminates")
    assert mirrored_.oracle != mirrored_.subject
    assert (difference.attribution, difference.property) == ("ours", None)


def test_where_that_mirrored_one_is_on_record_the_difference_is_still_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mirrored_, difference = examiner(raises_when_it_preempts).examine(STUCK).findings
    monkeypatch.setattr(Search, "draw", lambda _: STUCK)

    done = hunted(
        raises_when_it_preempts,
        Known({mirrored_.fingerprint: "some/record"}, {}),
        Unit("schedule", 7, 0, 1),
    )

    assert [find.fingerprint for find in done.finds] == [difference.fingerprint]

"""Which units a hunt does, when it ends, and that what it tells does not depend on who was faster."""

from __future__ import annotations

import time
from concurrent.futures import Future

import msgspec
import pytest

from parity.fuzz.campaign import Campaign, Plan, shrink_all
from parity.fuzz.crew import LostWorker
from parity.fuzz.unit import Done, Find, Reduced, Spent, Unit
from tests.parity.fuzz.test_tally import done, find


class Scripted:
    """A crew whose futures come true in a given order; `finds` maps an index to its fingerprints."""

    def __init__(
        self, jobs: int = 1, finds: dict[int, list[str]] | None = None, lose: int | None = None
    ) -> None:
        self.jobs = jobs
        self.asked: list[Unit] = []
        self._finds = finds or {}
        self._lose = lose

    def do(self, unit: Unit) -> Future[Done]:
        self.asked.append(unit)
        future: Future[Done] = Future()
        if unit.index == self._lose:
            self._lose = None
            future.set_exception(LostWorker())
            return future
        found = [find(fingerprint, unit.index) for fingerprint in self._finds.get(unit.index, ())]
        future.set_result(done(unit.index, *found, unit=unit, scenarios=unit.size))
        return future

    def shrink(self, one: Find, attempts: int, seconds: float | None) -> Future[Reduced]:
        assert seconds
        future: Future[Reduced] = Future()
        future.set_result(Reduced(one, attempts, None))
        return future

    def close(self) -> None:
        raise AssertionError("the hunt does not close its crew")


def plan(**changes: object) -> Plan:
    values: dict[str, object] = {
        "level": "schedule",
        "seed": 7,
        "size": 10,
        "policies": {},
        "shard": (1, 1),
        "seconds": None,
        "scenarios": 35,
        "keep_going": False,
    }
    return Plan(**{**values, **changes})  # type: ignore[arg-type]


def hunt(crew: Scripted, **changes: object) -> Campaign:
    campaign = Campaign(plan(**changes), crew)
    campaign.run()
    return campaign


def test_a_number_of_scenarios_is_met_exactly() -> None:
    crew = Scripted()

    tally = hunt(crew).tally

    assert [(unit.index, unit.size) for unit in crew.asked] == [(0, 10), (1, 10), (2, 10), (3, 5)]
    assert tally.scenarios == 35


def test_shards_share_the_units_without_overlap() -> None:
    crews = [Scripted() for _ in range(3)]
    for number, crew in enumerate(crews, start=1):
        hunt(crew, shard=(number, 3), scenarios=80)

    asked = [unit.index for crew in crews for unit in crew.asked]
    assert sorted(asked) == list(range(8))


@pytest.mark.parametrize("jobs", [1, 2, 4, 8])
def test_a_hunt_ends_with_the_first_unit_that_has_a_find_however_many_are_at_it(jobs: int) -> None:
    crew = Scripted(jobs, {2: ["f1:a", "f1:b"], 3: ["f1:c"]})

    tally = hunt(crew, scenarios=1000).tally

    assert [one.fingerprint for one in tally.finds()] == ["f1:a", "f1:b"]
    assert tally.units == {0, 1, 2}
    assert len(crew.asked) <= 3 + jobs


def test_one_that_keeps_going_does_all_of_it() -> None:
    tally = hunt(Scripted(2, {1: ["f1:a"], 3: ["f1:a", "f1:c"]}), keep_going=True).tally

    assert [(one.fingerprint, one.unit) for one in tally.finds()] == [("f1:a", 1), ("f1:c", 3)]
    assert tally.scenarios == 35


def test_a_unit_whose_worker_died_is_done_again_and_counts_once() -> None:
    crew = Scripted(2, lose=1)

    tally = hunt(crew).tally

    assert sorted(unit.index for unit in crew.asked) == [0, 1, 1, 2, 3]
    assert tally.scenarios == 35


def test_a_time_that_is_too_short_for_a_unit_still_does_one() -> None:
    """A unit of the scripted crew says that it took 4 seconds."""
    tally = hunt(Scripted(), scenarios=None, seconds=0.5).tally

    assert tally.units == {0}


def test_the_start_of_a_server_is_no_part_of_what_a_unit_takes() -> None:
    """A unit takes 0.5 + 2 + 0.5 seconds without it: asked at 0, 9, 18 and 27 of 30 seconds there is time for one more, at 36 none."""

    class Slow(Scripted):
        def do(self, unit: Unit) -> Future[Done]:
            future = super().do(unit)
            spent = Spent(making=0.5, oracle=2.0, subject=1.0, playing=60.0, judging=0.5)
            slow: Future[Done] = Future()
            slow.set_result(msgspec.structs.replace(future.result(), spent=spent))
            return slow

    crew = Slow()
    campaign = Campaign(plan(scenarios=None, seconds=30.0), crew)
    clock = iter([4, *range(0, 1000, 9)])  # the first is for when the first unit began
    campaign._clock = lambda: float(next(clock))
    campaign._began = 0.0

    assert campaign.run().units == {0, 1, 2, 3, 4}


def test_when_the_first_unit_began_is_known_once_it_is_done() -> None:
    """A unit takes 1 + 2.5 + 0.5 seconds."""
    campaign = Campaign(plan(), Scripted(), began=90.0)
    clock = iter(range(100, 1000))
    campaign._clock = lambda: float(next(clock))

    assert campaign.ready is None
    campaign.run()

    assert campaign.ready == 100 - 4


def test_the_time_runs_from_the_hunts_beginning_and_not_from_that_of_its_units() -> None:
    """Asked at 12 of 10 seconds, 8 of which had gone by before: one unit a process, and no more."""
    crew = Scripted(2)
    campaign = Campaign(plan(scenarios=None, seconds=10.0), crew, began=0.0)
    campaign._clock = lambda: 12.0

    assert campaign.run().units == {0, 1}


def test_no_unit_is_begun_that_would_take_too_long_if_it_took_as_long_as_the_longest() -> None:
    """Units take 2, 8 and 2 seconds without starts; of 20 seconds 7 are left when three are done, and 13 after two."""
    took = iter([2.0, 8.0, 2.0])

    class Uneven(Scripted):
        def do(self, unit: Unit) -> Future[Done]:
            uneven: Future[Done] = Future()
            spent = Spent(oracle=next(took), playing=1.0)
            uneven.set_result(msgspec.structs.replace(super().do(unit).result(), spent=spent))
            return uneven

    campaign = Campaign(plan(scenarios=None, seconds=20.0), Uneven(), began=0.0)
    clock = iter([1.0, 2.0, 7.0, 13.0])
    campaign._clock = lambda: next(clock)

    assert campaign.run().units == {0, 1, 2}


def test_what_is_not_shrunk_when_its_time_is_over_is_handed_on_as_it_is() -> None:
    seen: list[Reduced] = []
    finds = [find("f1:a", 0), find("f1:b", 1)]

    shrink_all(finds, Scripted(2), seen.append, until=time.monotonic() - 1)

    assert seen == [Reduced(one, 0, "time") for one in finds]


def test_each_find_is_shrunk_once() -> None:
    seen: list[str] = []

    shrink_all(
        [find("f1:a", 0), find("f1:b", 1), find("f1:c", 1)],
        Scripted(2),
        lambda reduced: seen.append(reduced.find.fingerprint),
    )

    assert sorted(seen) == ["f1:a", "f1:b", "f1:c"]

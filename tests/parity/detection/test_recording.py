"""A planted fault's findings as records: they cover what it shows, and nothing else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from parity.detection.children import Task, run_all
from parity.detection.hiding import by_everything, by_recorded
from parity.detection.mutation import Mutant, mutants_of
from parity.detection.planted import ROOT
from parity.detection.recording import Shown, records_of, refreshed
from parity.detection.replay import Check, observe_all, plays_of
from parity.finding import Plays
from tests.records.miniature import HASH, finding, record


@pytest.fixture(scope="module")
def check() -> Check:
    return Check.of(ROOT)


@pytest.fixture(scope="module")
def oracle(check: Check) -> dict[str, Plays]:
    """The untouched engine in the oracle's place."""
    return plays_of(check.cases, observe_all(check))


def victims() -> tuple[Mutant, Mutant]:
    """A fault that leaves every exemplar of the records as it is, and one of who is served again first."""
    scheduler = mutants_of(ROOT, "engine/scheduler.py")
    queue = mutants_of(ROOT, "engine/request_queue.py")
    return (
        next(m for m in scheduler if m.id == "engine/scheduler.py::Scheduler._schedule_running#12:plus"),
        next(m for m in queue if m.symbol == "FcfsQueue.put_back" and m.operator == "call"),
    )


def value(work: Any) -> Any:
    (answer,) = run_all([Task("", work, 100.0)], 1)
    assert answer.failure is None
    return answer.value


def test_on_record_a_fault_is_green_and_a_second_one_beside_it_is_not(
    check: Check, oracle: dict[str, Plays]
) -> None:
    first, second = victims()
    shown = msgspec.convert(value(by_everything(check, oracle, [first])), list[Shown])

    assert value(by_recorded(check, oracle, [first], [])) is False
    assert value(by_recorded(check, oracle, [first], shown)) is True
    assert value(by_recorded(check, oracle, [first, second], shown)) is False
    assert value(by_recorded(check, oracle, [], shown)) is False  # what is on record no longer shows


def test_a_record_that_a_fault_makes_stale_is_refreshed() -> None:
    kept, lost = finding(1), finding(2)
    records = [record(kept, name="auto-fit/kept"), record(lost, name="auto-fit/lost")]

    fresh = refreshed(records, [Shown("auto-fit/null-block", HASH, kept)])

    assert [len(item.front.exemplars) for item in fresh] == [1, 0]
    assert [item.front.fingerprints for item in fresh] == [item.front.fingerprints for item in records]


def test_what_crashes_is_put_on_no_record(check: Check, oracle: dict[str, Plays]) -> None:
    crash = next(
        m
        for m in mutants_of(ROOT, "engine/scheduler.py")
        if m.symbol == "Scheduler._pop_victim" and m.operator == "none"
    )

    assert value(by_everything(check, oracle, [crash])) is None


def test_a_record_is_of_one_attribution_and_has_the_digests() -> None:
    mirrored, ours = finding(1), finding(2, "ours")
    shown = [Shown("preemption/a", HASH, mirrored), Shown("preemption/b", HASH, ours)]

    records = {made.front.attribution: made.front for made in records_of(shown)}

    assert sorted(records) == ["mirrored", "ours"]
    (entry,) = records["ours"].exemplars
    assert (entry.scenario, entry.oracle_digest) == ("preemption/b", ours.oracle_digest)
    assert records["mirrored"].fingerprints == [mirrored.fingerprint]
    assert [made.front.attribution for made in records_of(shown, {mirrored.fingerprint})] == ["ours"]

"""Units are counted once, whatever their order, and each fingerprint has one find."""

from __future__ import annotations

import itertools
from typing import Any

from parity.fuzz.tally import Tally, tally_of
from parity.fuzz.unit import Done, Find, Spent, Unit


def find(fingerprint: str, unit: int, ordinal: int = 0) -> Find:
    return Find(fingerprint, "a shape", "ours", None, "end", 1, 2, {"level": "schedule"}, unit, ordinal)


def done(index: int, *finds: Find, **changes: Any) -> Done:
    values: dict[str, Any] = {
        "unit": Unit("schedule", 7, index, 10),
        "scenarios": 10,
        "plays": 12,
        "states": [index, 100],
        "behaviours": {"hit": 2, "stall": index},
        "pairs": ["hit+stall", f"hit+{index}"],
        "known": {"preemption/decided": 1},
        "behind": {},
        "finds": list(finds),
        "steps": [index] * 3,
        "spent": Spent(1.0, 2.0, 0.5, 2.5, 0.5),
    }
    return Done(**{**values, **changes})


def test_a_unit_that_comes_twice_counts_once() -> None:
    tally = tally_of([done(0), done(1), done(0), done(1)])

    assert tally.units == {0, 1}
    assert tally.scenarios == 20
    assert tally.plays == 24
    assert tally.states == {0, 1, 100}
    assert tally.behaviours == {"hit": 4, "stall": 1}
    assert tally.pairs == {"hit+stall", "hit+0", "hit+1"}
    assert tally.known == {"preemption/decided": 2}
    assert tally.spent == Spent(2.0, 4.0, 1.0, 5.0, 1.0)
    assert tally.spent.whole == 8.0
    assert tally.median_steps == 0.5


def test_what_is_new_of_a_unit_is_told_and_nothing_of_one_that_was_counted() -> None:
    tally = Tally()

    first, second, again = tally.add(done(0)), tally.add(done(1)), tally.add(done(1))

    assert first is not None
    assert first.states == [0, 100]
    assert second is not None
    assert second.states == [1]
    assert second.pairs == ["hit+1"]
    assert second.behaviours == {"hit": 2, "stall": 1}
    assert again is None


def test_a_fingerprint_is_kept_from_the_lowest_unit_in_any_order() -> None:
    units = [done(2, find("f1:b", 2), find("f1:a", 2, 5)), done(1, find("f1:a", 1, 9)), done(0)]

    for order in itertools.permutations(units):
        found = [(one.fingerprint, one.unit, one.ordinal) for one in tally_of(order).finds()]
        assert found == [("f1:a", 1, 9), ("f1:b", 2, 0)]


def test_nothing_done_is_nothing() -> None:
    assert Tally().median_steps is None
    assert Tally().finds() == []

"""The policy table: what may be chosen, and what a wrong choice is told."""

from __future__ import annotations

import pytest

from engine.driver import observe
from engine.policies import TABLE, NullBlockCapacity, Policies, PolicyError, resolve
from tests.engine.scenes import config


@pytest.mark.parametrize("chosen", [None, {}, {"null-block-capacity": "pin"}])
def test_the_default_is_what_the_mirrored_version_does(chosen: dict[str, str] | None) -> None:
    assert resolve(chosen) == Policies(null_block_capacity=NullBlockCapacity.PIN)


def test_every_documented_value_can_be_chosen() -> None:
    for policy in TABLE:
        assert policy.default in policy.values
        for value in policy.values:
            assert resolve({policy.name: value}).null_block_capacity.value == value


@pytest.mark.parametrize(("value", "reserves"), [("pin", False), ("count", False), ("reserve", True)])
def test_only_reserve_keeps_a_block_back(value: str, reserves: bool) -> None:
    assert NullBlockCapacity(value).reserves is reserves


@pytest.mark.parametrize(
    ("chosen", "nearest"),
    [
        ({"null-block-capacty": "pin"}, "null-block-capacity"),
        ({"null-block-capacity": "reserved"}, "reserve"),
        ({"null-block-capacity": "counts"}, "count"),
    ],
)
def test_a_wrong_name_or_value_is_told_the_nearest_right_one(chosen: dict[str, str], nearest: str) -> None:
    with pytest.raises(PolicyError, match=f"did you mean '{nearest}'"):
        resolve(chosen)


def test_the_driver_refuses_a_wrong_policy_before_anything_runs() -> None:
    asked = {"id": "test/plan", "level": "plan", "config": config(), "timeline": None}

    with pytest.raises(PolicyError):
        observe(asked, {"null-block-capacity": "maybe"})

"""The wire's types: the driver's own restatement is the contract's, and what is no scenario is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from oracle.driver import wire
from oracle.driver.errors import BadRequest
from parity import observation, scenario
from tests.oracle.driver_process import config, request
from tests.oracle.driver_process import scenario as wire_scenario


def schema(type_: Any) -> Any:
    """A type's JSON Schema without the prose, which each room writes for its own readers."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: bare(item) for key, item in value.items() if key != "description"}
        return [bare(item) for item in value] if isinstance(value, list) else value

    return bare(msgspec.json.schema(type_))


def timeline(*requests: dict[str, Any]) -> dict[str, Any]:
    return {"requests": list(requests), "aborts": [], "resets": [], "max_steps": 10}


@pytest.mark.parametrize("name", ["Scenario", "Config", "Timeline"])
def test_a_scenario_has_the_contracts_schema(name: str) -> None:
    assert schema(getattr(wire, name)) == schema(getattr(scenario, name))


@pytest.mark.parametrize("name", ["PlanOk", "PlanError", "Step", "End"])
def test_an_observation_has_the_contracts_schema(name: str) -> None:
    assert schema(getattr(wire, name)) == schema(getattr(observation, name))


def test_fields_are_written_in_the_contracts_order() -> None:
    for name in ("PlanOk", "PlanError", "Step", "End"):
        assert getattr(wire, name).__struct_fields__ == getattr(observation, name).__struct_fields__


def test_a_schedule_scenario_is_read() -> None:
    raw = wire_scenario("schedule", config(num_blocks=4), timeline(request("a", 8, 2)))

    read = wire.read_scenario(raw)

    assert read.config.num_blocks == 4
    assert read.timeline is not None
    assert read.timeline.requests[0].output == [
        request("a", 8, 2)["output"][0],
        request("a", 8, 2)["output"][1],
    ]


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        (None, "Expected `object`"),
        (wire_scenario("plan", {**config(), "speed": 1}), "unknown field `speed`"),
        (wire_scenario("plan", {**config(), "block_size": 0}), "$.config.block_size"),
        (wire_scenario("serve", config()), "$.level"),
        (wire_scenario("schedule", config()), "timeline"),
        (wire_scenario("plan", config(), timeline(request("a", 8, 2))), "timeline"),
        (wire_scenario("schedule", config(), timeline()), "$.timeline.requests"),
        (
            wire_scenario("schedule", config(), timeline(request("a", 8, 2), request("a", 9, 2))),
            "'a' occurs twice",
        ),
        (wire_scenario("schedule", config(), timeline(request("a", 8, 2, output=[1]))), "1 forced tokens"),
    ],
)
def test_what_is_no_scenario_is_a_bad_request_that_says_why(raw: Any, complaint: str) -> None:
    with pytest.raises(BadRequest) as refused:
        wire.read_scenario(raw)

    assert complaint in str(refused.value)

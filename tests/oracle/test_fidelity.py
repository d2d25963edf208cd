"""The driver's two doors: what it shows of upstream's scheduler is what upstream's own engine core does with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from parity.scenario import Case
from parity.suite import load_suite
from tests.oracle.driver_process import ROOT, Driver, config, request, scenario

pytestmark = pytest.mark.oracle

CORE = ("-m", "oracle.driver", "--door", "core")
# Faults of the scheduler's door, each planted for the scenario that has its name.
PLANTED = """
from oracle.driver.environment import fix_environment
fix_environment()
from oracle.driver import door, schedule, side
played = side.Upstream.run
Door = door.SchedulerDoor

def late_aborts_first(self, run, late):
    for request_id in late:
        self.abort(request_id)
    return step(self, run, ())

def aborts_in_one_call(self, run, late):
    output = self.scheduler.schedule()
    sampled = run(output)
    self.scheduler.finish_requests(sorted(late, reverse=True), door.RequestStatus.FINISHED_ABORTED)
    free = door.state.free_blocks(self.scheduler)
    self._aborted = [(request_id, free) for request_id in late]
    return self.scheduler.update_from_output(output, sampled)

def without_hashes(self, wanted, params):
    self._block_hasher = None
    return add(self, wanted, params)

def without_priority(self, wanted, params):
    return add(self, door.wire.msgspec.structs.replace(wanted, priority=0), params)

step, add, reset = Door.step, Door.add, Door.reset
FAULTS = {
    "planted/late-aborts-first": {"step": late_aborts_first},
    "planted/aborts-in-one-call": {"step": aborts_in_one_call},
    "planted/without-hashes": {"add": without_hashes},
    "planted/without-priority": {"add": without_priority},
    "planted/no-running-reset": {"reset": lambda self, running: reset(self, False)},
}

def run(self, scenario, emit):
    for name, fault in FAULTS.get(scenario.id, {}).items():
        setattr(Door, name, fault)
    try:
        return played(self, scenario, emit)
    finally:
        Door.step, Door.add, Door.reset = step, add, reset

side.Upstream.run = run
from oracle.driver.__main__ import main
raise SystemExit(main())
"""


@pytest.fixture(scope="module")
def scheduler() -> Iterator[Driver]:
    with Driver("-c", PLANTED, PYTHONHASHSEED="0") as process:
        yield process


@pytest.fixture(scope="module")
def core() -> Iterator[Driver]:
    with Driver(*CORE) as process:
        yield process


def play(driver: Driver, asked: Any) -> tuple[list[Any], Any]:
    """The steps and the end, as they come over the wire."""
    answers = driver.ask("run", scenario=asked)
    assert "end" in answers[-1], answers[-1]
    return [answer["step"] for answer in answers[:-1]], answers[-1]["end"]


def timeline(requests: list[dict[str, Any]], **events: Any) -> dict[str, Any]:
    return {"requests": requests, "aborts": [], "resets": [], "max_steps": 200, **events}


def abort(name: str, at: int, when: str = "before_schedule") -> dict[str, Any]:
    return {"id": name, "at": at, "when": when}


def committed(level: str) -> list[Case]:
    return [case for case in load_suite(ROOT) if case.scenario.level == level]


def reached(asked: Any, steps: list[Any], end: Any) -> set[str]:
    """What of upstream's behaviour an observation shows."""
    happened = {name for step in steps for name in step if step[name]}
    happened |= {end["end"]["kind"], asked["config"]["scheduling_policy"]}
    if any(reset["running"] for reset in asked["timeline"]["resets"]):
        happened.add("reset running")
    if any(tokens for step in steps for _, tokens in step["cached"]):
        happened.add("cache hit")
    if not all(step["scheduled"] for step in steps):
        happened.add("empty step")
    return happened


def test_every_committed_schedule_is_the_same_through_both_doors(scheduler: Driver, core: Driver) -> None:
    behaviours: set[str] = set()
    cases = committed("schedule")

    different = []
    for case in cases:
        asked = msgspec.to_builtins(case.scenario)
        expected = play(core, asked)
        behaviours |= reached(asked, *expected)
        if play(scheduler, asked) != expected:
            different.append(case.id)

    assert different == []
    assert len(cases) >= 50
    assert behaviours >= {
        "aborted",
        "aborted_late",
        "reset",
        "reset running",
        "priority",
        "preempted",
        "resumed",
        "evicted",
        "cache hit",
        "empty step",
        "done",
        "refused",
        "stall",
        "livelock",
        "limit",
    }


def test_every_committed_plan_is_the_same_through_both_doors(scheduler: Driver, core: Driver) -> None:
    different = []
    kinds = set()
    for case in committed("plan"):
        asked = msgspec.to_builtins(case.scenario)
        expected = play(core, asked)
        kinds.add(expected[1].get("kind", "ok"))
        if play(scheduler, asked) != expected:
            different.append(case.id)

    assert different == []
    assert kinds > {"ok", "no-kv-cache-memory", "kv-cache-too-small", "cannot-auto-fit"}


APART = [request("a", 20, 2), request("b", 20, 2, at=9, arrival=1)]
EDGES = {
    "a core without requests does not step": timeline(APART),
    "an abort of nobody while the core does not step": timeline(
        APART, aborts=[abort("b", 5), abort("a", 6, "before_update"), abort("b", 6, "before_update")]
    ),
    "a reset while the core does not step": timeline(APART, resets=[{"at": 6, "running": True}]),
    "upstream raises while it takes a request": timeline([*APART, request("c", 8, 2, at=3, min_tokens=3)]),
    "everybody is aborted late in one step": timeline(
        [request(name, 20, 9) for name in "abc"],
        aborts=[abort(name, 2, "before_update") for name in ("b", "c", "a", "b")],
    ),
    "all that is left is aborted before a step": timeline(
        [request("a", 20, 9)], aborts=[abort("a", 3)], resets=[{"at": 3, "running": False}]
    ),
}


@pytest.mark.parametrize("edge", EDGES)
def test_the_edges_of_a_core_are_the_same_through_both_doors(
    edge: str, scheduler: Driver, core: Driver
) -> None:
    asked = scenario("schedule", config(num_blocks=9), EDGES[edge])

    expected = play(core, asked)

    assert len(expected[0]) >= 3
    assert play(scheduler, asked) == expected


TWICE = [request("a", list(range(40)), 4), request("b", list(range(40)), 4, at=6)]
FAULTS = {
    "late-aborts-first": (timeline([request("a", 20, 5)], aborts=[abort("a", 4, "before_update")]), {}),
    "aborts-in-one-call": (EDGES["everybody is aborted late in one step"], {"num_blocks": 9}),
    "without-hashes": (timeline(TWICE), {}),
    "without-priority": (
        timeline([request("a", 20, 5, priority=1), request("b", 20, 5)]),
        {"scheduling_policy": "priority"},
    ),
    "no-running-reset": (timeline([request("a", 40, 5)], resets=[{"at": 2, "running": True}]), {}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_schedulers_door_shows(fault: str, scheduler: Driver, core: Driver) -> None:
    events, keys = FAULTS[fault]
    sound = scenario("schedule", config(**keys), events)
    expected = play(core, sound)
    assert play(scheduler, sound) == expected

    assert play(scheduler, {**sound, "id": f"planted/{fault}"}) != expected

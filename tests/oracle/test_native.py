"""Upstream's native output: written field by field, and the projection held against it step by step."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from oracle.driver.native import plain
from parity.suite import load_suite
from tests.oracle.driver_process import ROOT, Driver, config, request, scenario

Json = Any


class Reason(enum.IntEnum):
    STOP = 0
    LENGTH = 1


class Output(msgspec.Struct, array_like=True, omit_defaults=True):  # the form of upstream's structs
    request_id: str
    finish_reason: Reason | None = None


@dataclasses.dataclass
class Scheduled:
    tokens: dict[str, int]
    blocks: tuple[list[int], ...]
    finished: set[str]
    outputs: list[Output]
    unused: int | None = None


class Array:
    def tolist(self) -> list[float]:
        return [0.5]


def test_every_field_is_written_under_its_own_name() -> None:
    value = Scheduled({"a": 8}, ([1, 2],), {"c", "b"}, [Output("a", Reason.LENGTH)])

    assert plain(value) == {
        "tokens": {"a": 8},
        "blocks": [[1, 2]],
        "finished": ["b", "c"],
        "outputs": [{"request_id": "a", "finish_reason": "LENGTH"}],
        "unused": None,
    }


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (Reason.STOP, "STOP"),
        (True, True),
        (b"\x00\xff", "00ff"),
        ({0: 1.5}, {"0": 1.5}),
        (frozenset({3, 20, 100}), [3, 20, 100]),
        (Array(), [0.5]),
        (range(2), "range(0, 2)"),
    ],
)
def test_what_json_does_not_have_is_written_as_the_nearest_it_has(value: Any, written: Json) -> None:
    assert plain(value) == written


@pytest.fixture(scope="module")
def debugging() -> Iterator[Driver]:
    with Driver("-m", "oracle.driver", "--debug") as process:
        yield process


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with Driver() as process:
        yield process


SMALL = scenario(
    "schedule",
    config(num_blocks=9),
    {"requests": [request("r0", 17, 1)], "aborts": [], "resets": [], "max_steps": 9},
)


@pytest.mark.oracle
def test_a_step_without_debug_has_no_native_output(driver: Driver) -> None:
    step, _ = driver.ask("run", scenario=SMALL)

    assert set(step) == {"seq", "step"}


@pytest.mark.oracle
def test_a_step_with_debug_has_all_fields_of_both_outputs(debugging: Driver) -> None:
    step, _ = debugging.ask("run", scenario=SMALL)

    output = step["native"]["scheduler_output"]
    (new,) = output["scheduled_new_reqs"]
    assert (new["req_id"], new["block_ids"], new["num_computed_tokens"]) == ("r0", [[1, 2]], 0)
    assert new["sampling_params"]["max_tokens"] == 1
    assert {"free_encoder_mm_hashes", "preempted_req_ids", "kv_connector_metadata"} < output.keys()
    answer = step["native"]["engine_core_outputs"]["0"]
    assert answer["outputs"][0]["finish_reason"] == "LENGTH"
    assert answer["scheduler_stats"]["num_running_reqs"] == 0


class Audit:
    """One observation against the native output of the same steps."""

    def __init__(self, answers: list[dict[str, Any]]) -> None:
        self.steps = [(answer["step"], answer["native"]) for answer in answers[:-1]]
        self.outcome = answers[-1]["end"]
        self.tables: dict[str, list[int]] = {}
        self.received = {name: 0 for name, _ in self.outcome["end"]["outputs"]}

    def check(self) -> None:
        ended: set[str] = set()
        for step, native in self.steps:
            output, outputs = native["scheduler_output"], native["engine_core_outputs"]
            self._scheduled(step, output)
            self._admitted(step, output)
            self._blocks(step, output)
            ended = self._ended(step, output, ended)
            self._finished(step, outputs)
            self._stats(step, outputs)
        assert self.received == dict(self.outcome["end"]["outputs"])

    def _scheduled(self, step: Json, output: Json) -> None:
        assert [list(item) for item in output["num_scheduled_tokens"].items()] == step["scheduled"]
        assert output["total_num_scheduled_tokens"] == sum(tokens for _, tokens in step["scheduled"])
        assert output["preempted_req_ids"] == sorted(step["preempted"])

    def _admitted(self, step: Json, output: Json) -> None:
        cached = output["scheduled_cached_reqs"]
        computed = {new["req_id"]: new["num_computed_tokens"] for new in output["scheduled_new_reqs"]}
        assert list(computed) == step["new"]
        assert cached["resumed_req_ids"] == sorted(step["resumed"])
        computed |= zip(cached["req_ids"], cached["num_computed_tokens"], strict=True)
        assert step["cached"] == [[name, computed[name]] for name, _ in step["cached"]]
        assert {name for name, _ in step["cached"]} == {*step["new"], *step["resumed"]}

    def _blocks(self, step: Json, output: Json) -> None:
        """Each scheduled request's table is what upstream told the workers of it since it was admitted."""
        shown = dict(step["blocks"])
        for new in output["scheduled_new_reqs"]:
            (self.tables[new["req_id"]],) = new["block_ids"]
        cached = output["scheduled_cached_reqs"]
        for name, blocks in zip(cached["req_ids"], cached["new_block_ids"], strict=True):
            added = blocks[0] if blocks else []
            self.tables[name] = added if name in cached["resumed_req_ids"] else self.tables[name] + added
        for name, _ in step["scheduled"]:
            assert self.tables[name] == shown[name]

    def _ended(self, step: Json, output: Json, before: set[str]) -> set[str]:
        """Upstream tells the workers in the next step who ended: by itself, or aborted while it was there."""
        told = set(output["finished_req_ids"])
        assert before <= told <= before | {name for name, _ in step["aborted"]}
        there = {*step["running"], *step["waiting"]}
        return {name for name, *_ in step["finished"]} | {name for name, _ in step["aborted_late"]} & there

    def _finished(self, step: Json, outputs: Json) -> None:
        answers = [answer for client in outputs.values() for answer in client["outputs"]]
        assert step["finished"] == [
            [answer["request_id"], answer["finish_reason"].lower(), answer["stop_reason"]]
            for answer in answers
            if answer["finish_reason"] is not None
        ]
        for answer in answers:
            self.received[answer["request_id"]] += len(answer["new_token_ids"])

    def _stats(self, step: Json, outputs: Json) -> None:
        """What upstream counts after the update."""
        if "0" not in outputs or (stats := outputs["0"]["scheduler_stats"]) is None:
            return
        gone = {name for name, *_ in [*step["finished"], *step["aborted_late"]]}
        assert stats["num_running_reqs"] == len(set(step["running"]) - gone)
        assert stats["num_waiting_reqs"] == len(set(step["waiting"]) - gone)
        usable = self.outcome["plan"]["usable_blocks"]
        assert stats["kv_cache_usage"] * usable == pytest.approx(usable - step["free_after"])


@pytest.mark.oracle
def test_the_projection_of_every_committed_schedule_agrees_with_the_native_output(debugging: Driver) -> None:
    seen: set[str] = set()
    audited = 0
    for case in load_suite(ROOT):
        if case.scenario.level != "schedule":
            continue
        answers = debugging.ask("run", scenario=msgspec.to_builtins(case.scenario))
        audit = Audit(answers)
        try:
            audit.check()
        except AssertionError as error:
            error.add_note(f"in {case.id}")
            raise
        audited += bool(audit.steps)
        seen |= {name for step, _ in audit.steps for name in step if step[name]}

    assert audited >= 30
    assert seen >= {"new", "resumed", "preempted", "cached", "aborted", "aborted_late", "finished", "waiting"}


THRASHING = scenario(
    "schedule",
    config(num_blocks=7),
    {
        "requests": [request("a", 34, 35), request("b", 34, 35, arrival=1)],
        "aborts": [{"id": "a", "at": 50, "when": "before_update"}],
        "resets": [],
        "max_steps": 90,
    },
)


@pytest.mark.oracle
@pytest.mark.parametrize(
    "field",
    ["scheduled", "new", "resumed", "preempted", "cached", "running", "waiting", "finished", "free_after"],
)
def test_a_projection_with_one_wrong_field_does_not_pass_the_audit(field: str, debugging: Driver) -> None:
    answers = debugging.ask("run", scenario=THRASHING)
    Audit(answers).check()
    answer = next(answer for answer in answers if answer["step"][field])
    answer["step"][field] = answer["step"][field] - 1 if field == "free_after" else []

    with pytest.raises(AssertionError):
        Audit(answers).check()


@pytest.mark.oracle
def test_debug_changes_nothing_but_that_it_adds_the_native_output(debugging: Driver, driver: Driver) -> None:
    for case in load_suite(ROOT):
        if case.scenario.level != "schedule" or case.family != "preemption":
            continue
        asked = msgspec.to_builtins(case.scenario)
        bare, full = driver.ask("run", scenario=asked), debugging.ask("run", scenario=asked)

        assert [answer["step"] for answer in full[:-1]] == [answer["step"] for answer in bare[:-1]], case.id
        assert full[-1]["end"] == bare[-1]["end"], case.id

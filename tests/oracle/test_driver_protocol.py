"""The JSON lines: first the loop alone with a made-up side, then the real process."""

from __future__ import annotations

import io
import json
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from oracle.driver.errors import DriverError
from oracle.driver.protocol import serve
from oracle.driver.wire import End, Hello, Plan, PlanError, Scenario, ScheduleEnd, Step
from tests.oracle.driver_process import Driver, config, request, scenario

PLAN = scenario("plan", config(num_blocks=4))
SCHEDULE = scenario(
    "schedule",
    config(num_blocks=4),
    {"requests": [request("r0", 8, 2)], "aborts": [], "resets": [], "max_steps": 10},
)


class MadeUp:
    """A side that answers two empty steps and a refusal, or raises."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def hello(self) -> Hello:
        return Hello("made-up", "1", ["plan"], "v1", "3", "2", "wheel")

    def run(self, scenario: Scenario, emit: Callable[[Step], None]) -> Plan | ScheduleEnd:
        refusal = PlanError([], "cannot-auto-fit", None)
        if scenario.level == "plan":
            return refusal
        for _ in range(2):
            emit(Step([], [], [], [], [], [], [], [], [], 3, [], [], [], [], 3))
        if self.error is not None:
            raise self.error
        return ScheduleEnd(refusal, End("refused", None, None, [("r0", 0)]))


def talk(*lines: Any, side: MadeUp | None = None) -> list[dict[str, Any]]:
    """The answers to `lines`: bytes as they are, anything else as JSON."""
    source = b"".join((x if isinstance(x, bytes) else json.dumps(x).encode()) + b"\n" for x in lines)
    sink = io.BytesIO()
    serve(io.BytesIO(source), sink, side or MadeUp())
    return [json.loads(line) for line in sink.getvalue().splitlines()]


@pytest.mark.parametrize("seq", [1, "one", None, [1, {"a": 2}]])
def test_seq_is_opaque_and_echoed(seq: Any) -> None:
    (answer,) = talk({"seq": seq, "op": "hello"})

    assert answer["seq"] == seq
    assert answer["hello"]["name"] == "made-up"


def test_a_plan_is_the_end_itself() -> None:
    (answer,) = talk({"seq": 1, "op": "run", "scenario": PLAN})

    assert answer["end"] == {
        "status": "error",
        "warnings": [],
        "kind": "cannot-auto-fit",
        "estimated_max_model_len": None,
    }
    assert answer["seconds"] >= 0


def test_steps_come_before_the_end_of_a_schedule() -> None:
    answers = talk({"seq": 5, "op": "run", "scenario": SCHEDULE})

    assert [sorted(answer) for answer in answers] == [["seq", "step"]] * 2 + [["end", "seconds", "seq"]]
    assert {answer["seq"] for answer in answers} == {5}
    assert answers[-1]["end"]["end"] == {
        "kind": "refused",
        "period": None,
        "error": None,
        "outputs": [["r0", 0]],
    }


@pytest.mark.parametrize(
    ("line", "seq", "complaint"),
    [
        (b"{", None, "not a JSON line"),
        (b"", None, "not a JSON line"),
        (b"\xff\xfe", None, "not a JSON line"),
        (b"[1]", None, "not a JSON object but list"),
        ({"seq": 3}, 3, "unknown op None"),
        ({"seq": 3, "op": "dance"}, 3, "unknown op 'dance'"),
        ({"seq": 3, "op": "run"}, 3, "not a scenario"),
        ({"seq": 3, "op": "run", "scenario": {**PLAN, "level": "x"}}, 3, "$.level"),
    ],
)
def test_a_bad_line_is_answered_and_the_loop_goes_on(line: Any, seq: Any, complaint: str) -> None:
    bad, good = talk(line, {"seq": 9, "op": "hello"})

    assert bad["seq"] == seq
    assert bad["error"]["kind"] == "bad-request"
    assert complaint in bad["error"]["message"]
    assert good["seq"] == 9


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (DriverError("setting block_size\ndid not stand"), "setting block_size did not stand"),
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
    ],
)
def test_a_fault_of_the_driver_is_one_line_and_the_loop_goes_on(error: Exception, message: str) -> None:
    answers = talk(
        {"seq": 1, "op": "run", "scenario": SCHEDULE}, {"seq": 2, "op": "hello"}, side=MadeUp(error)
    )

    assert answers[2] == {"seq": 1, "error": {"kind": "driver", "message": message}}
    assert answers[3]["seq"] == 2


def test_stop_is_answered_and_nothing_after_it_is_read() -> None:
    assert talk({"seq": 1, "op": "stop"}, {"seq": 2, "op": "hello"}) == [{"seq": 1, "stopped": True}]


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    # A shell's own settings must not reach upstream: this one would let explicit lengths pass the model's limit.
    with Driver(VLLM_ALLOW_LONG_MAX_MODEL_LEN="1", PYTHONHASHSEED="7") as process:
        yield process


@pytest.mark.oracle
def test_hello_says_who_answers(driver: Driver) -> None:
    (answer,) = driver.ask("hello")

    hello = answer["hello"]
    assert hello["name"] == "vllm"
    assert hello["version"].startswith("0.27.1")
    assert hello["levels"] == ["plan", "schedule"]
    assert hello["model_runner"] == "v1"
    assert hello["torch"].startswith("2.13.0")
    assert hello["source"] == "wheel"
    assert hello["capabilities"] == "all"
    assert hello["observes"] == {}


@pytest.mark.oracle
def test_a_bad_line_does_not_cost_the_process(driver: Driver) -> None:
    driver.send(b"not json")

    assert driver.read()["error"]["kind"] == "bad-request"
    assert driver.plan(num_blocks=4)["max_model_len"] == 64


@pytest.mark.oracle
def test_the_callers_environment_does_not_reach_upstream(driver: Driver) -> None:
    assert driver.plan(max_model_len=2049)["kind"] == "max-model-len-above-model"


@pytest.mark.oracle
def test_end_of_input_ends_the_process_with_0_and_a_clean_stdout() -> None:
    with Driver() as process:
        process.ask("run", scenario=SCHEDULE)

        assert process.end_input() == 0
        assert process.stderr() == ""


@pytest.mark.oracle
def test_stop_ends_the_process_with_0() -> None:
    with Driver() as process:
        assert process.ask("stop") == [{"seq": 1, "stopped": True}]
        assert process.end_input() == 0


@pytest.mark.oracle
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_process_without_a_traceback(number: signal.Signals) -> None:
    with Driver() as process:
        process.send(b"?")
        process.read()

        process.process.send_signal(number)

        assert process.process.wait(timeout=30) == 128 + number
        assert process.stderr() == ""


def test_an_interpreter_without_upstream_is_a_fault_that_says_what_is_missing() -> None:
    with Driver(python=sys.executable) as process:
        (answer,) = process.ask("run", scenario=PLAN)

    assert answer["error"]["kind"] == "driver"
    assert answer["error"]["message"] == "ModuleNotFoundError: No module named 'vllm'"


@pytest.mark.oracle
def test_an_unknown_source_is_a_fault_that_names_the_variable() -> None:
    with Driver(NULLBLOCK_ORACLE_SOURCE="rumour") as process:
        (answer,) = process.ask("hello")

    assert answer["error"]["kind"] == "driver"
    assert "NULLBLOCK_ORACLE_SOURCE" in answer["error"]["message"]


SILENT_CHANGE = """
from oracle.driver.environment import fix_environment
fix_environment()
from vllm.platforms.cpu import CpuPlatform
original = CpuPlatform.check_and_update_config.__func__
def change(cls, vllm_config):
    original(cls, vllm_config)
    vllm_config.scheduler_config.enable_chunked_prefill = False
CpuPlatform.check_and_update_config = classmethod(change)
from oracle.driver.__main__ import main
raise SystemExit(main())
"""


@pytest.mark.oracle
def test_a_setting_that_upstream_changes_silently_is_a_fault_that_names_it() -> None:
    with Driver("-c", SILENT_CHANGE, PYTHONHASHSEED="0") as process:
        (answer,) = process.ask("run", scenario=PLAN)

    assert answer["error"]["kind"] == "driver"
    assert "enable_chunked_prefill" in answer["error"]["message"]

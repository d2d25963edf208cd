"""A side in a process: every vice of the zoo becomes an error or a failed play, never a hang or a traceback."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from parity.errors import ExitCode, InconclusiveError, OracleError
from parity.line_process import Silence
from parity.observation import PlanOk, Schedule
from parity.process_side import STOP_SECONDS, Limits, ProcessSide
from parity.root import CODE_ROOT
from parity.scenario import Config, Model, Request, Scenario, Timeline
from parity.subjects.adapter import Adapter
from tests.parity.zoo import honest
from tests.parity.zoo.kit import subject

SHORT = Limits(hello=1.0, line=1.0)  # seconds; a vice that hangs sleeps for 60
LONG = Limits(hello=20.0, line=20.0)

CONFIG = Config(
    model=Model("m", 1, 1, 1, 64, 2000),
    dtype="float32",
    block_size=16,
    num_blocks=4,
    kv_cache_memory_bytes=0,
    max_model_len="auto",
    max_num_seqs=16,
    max_num_batched_tokens=8192,
    enable_chunked_prefill=True,
    long_prefill_token_threshold=0,
    scheduler_reserve_full_isl=True,
    watermark=0.0,
    enable_prefix_caching=True,
    scheduling_policy="fcfs",
)
REQUEST = Request(
    id="r0",
    at=0,
    arrival=0,
    prompt=[1000] * 8,
    max_tokens=1,
    min_tokens=0,
    output=[1001],
    eos_token_id=None,
    ignore_eos=False,
    stop_token_ids=[],
    priority=0,
    cache_salt=None,
    prompt_logprobs=None,
)
PLAN = Scenario("block-count/x", "plan", CONFIG, None)
SCHEDULE = Scenario("preemption/x", "schedule", CONFIG, Timeline([REQUEST], [], [], 2000))
FIRST = [["r0", 8]]  # what its first step schedules: the whole prompt

Open = Callable[..., ProcessSide]


@pytest.fixture
def open_side(tmp_path: Path) -> Iterator[Open]:
    sides: list[ProcessSide] = []

    def start(
        vice: str,
        limits: Limits = LONG,
        *,
        keep_native: bool = False,
        claims: dict[str, Any] | None = None,
        news: Callable[[str], None] | None = None,
    ) -> ProcessSide:
        environment = {**os.environ, "STATE": str(tmp_path / "starts")}
        command = [sys.executable, "-m", "tests.parity.zoo", vice]
        adapter = None if claims is None else Adapter(subject(tmp_path, vice, **claims))
        side = ProcessSide("zoo", command, CODE_ROOT, environment, limits, keep_native, adapter, news)
        sides.append(side)
        return side

    yield start
    for side in sides:
        side.close()


def played(side: ProcessSide, scenario: Scenario = SCHEDULE) -> Any:
    side.begin(scenario)
    return side.finish()


def starts(tmp_path: Path) -> int:
    return int((tmp_path / "starts").read_text())


def test_a_plan_is_the_end_line_itself(open_side: Open) -> None:
    play = played(open_side("is-chatty"), PLAN)

    assert isinstance(play.observation, PlanOk)
    assert (play.observation.num_blocks, play.failure, play.seconds) == (4, None, honest.SECONDS)


def test_a_schedule_is_its_steps_and_its_end(open_side: Open) -> None:
    play = played(open_side("honest"))

    assert isinstance(play.observation, Schedule)
    assert [step.scheduled for step in play.observation.steps] == [[("r0", 8)]]
    assert play.observation.end.kind == "done"


@pytest.mark.parametrize(("keep_native", "kept"), [(False, ()), (True, ({"own": [1, 2]},))])
def test_native_output_is_kept_where_it_was_asked_for(
    keep_native: bool, kept: tuple[object, ...], open_side: Open
) -> None:
    play = played(open_side("tells-more", keep_native=keep_native))

    assert play.native == kept
    assert isinstance(play.observation, Schedule)
    assert len(play.observation.steps) == 1


def test_a_step_without_the_native_output_that_was_asked_for_is_a_failure(open_side: Open) -> None:
    assert "a step without the native output" in str(played(open_side("honest", keep_native=True)).failure)


def test_one_process_serves_many_scenarios(open_side: Open, tmp_path: Path) -> None:
    side = open_side("honest")

    for _ in range(20):
        assert played(side, PLAN).failure is None
        assert side.lost() is None

    assert side.lost() is None
    assert starts(tmp_path) == 1


@pytest.mark.parametrize(
    ("vice", "says"),
    [
        (
            "dies-at-start",
            "the process ended with status 3; its last words: ImportError: libfoo.so is missing",
        ),
        ("silent-at-start", "no answer for 1 s"),
        ("hello-nonsense", "hello was not answered"),
    ],
)
def test_a_side_that_does_not_start_is_one_line_and_inconclusive(
    open_side: Open, vice: str, says: str
) -> None:
    side = open_side(vice, SHORT if vice == "silent-at-start" else LONG)

    with pytest.raises(OracleError) as caught:
        side.hello()

    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == ExitCode.INCONCLUSIVE


def test_a_command_that_does_not_exist_names_the_way_out(tmp_path: Path) -> None:
    command, adapter = [str(tmp_path / "python")], Adapter(subject(tmp_path, "honest"))

    with pytest.raises(OracleError, match="make setup"):
        ProcessSide("oracle", command, tmp_path, {})
    with pytest.raises(OracleError, match="correct door"):
        ProcessSide("zoo", command, tmp_path, {}, adapter=adapter)


def test_a_side_that_dies_once_is_started_again_and_answers(open_side: Open, tmp_path: Path) -> None:
    said: list[str] = []

    play = played(open_side("dies-once", news=said.append))

    assert play.failure is None
    assert said == ["zoo: the process ended with status 9; starting it again …"]
    assert isinstance(play.observation, Schedule)
    assert len(play.observation.steps) == 1, "steps of the dead process must not be counted"
    assert starts(tmp_path) == 2


@pytest.mark.parametrize("vice", ["silent-at-start", "talks-then-quiet"])
def test_a_side_that_owes_an_answer_is_not_asked_to_stop(vice: str, open_side: Open) -> None:
    """It would be waited for in vain."""
    side = open_side(vice)
    if vice == "talks-then-quiet":
        side.begin(SCHEDULE)
    began = time.monotonic()

    side.close()

    assert time.monotonic() - began < STOP_SECONDS


def test_a_side_that_dies_again_fails_the_scenario_and_is_not_started_a_third_time(
    open_side: Open, tmp_path: Path
) -> None:
    side = open_side("dies-always")

    first, second = played(side), played(side)

    assert first.failure is not None
    assert "status 9" in first.failure
    assert len(first.steps) == 1, "the steps so far are kept"
    assert second.failure is not None
    assert "not started a third time" in second.failure
    assert starts(tmp_path) == 2


def test_the_steps_so_far_outlive_a_restart_that_fails(open_side: Open) -> None:
    play = played(open_side("dies-on-the-way-back"))

    assert "status 3 (also after a restart; before it: the process ended with status 9)" in str(play.failure)
    assert [step["scheduled"] for step in play.steps] == [FIRST]


@pytest.mark.parametrize(
    ("vice", "scenario", "says"),
    [
        ("not-json", PLAN, "not JSON"),
        ("no-object", PLAN, "no JSON object: b'[1, 2]'"),
        ("wrong-seq", PLAN, "out of turn"),
        ("step-before-run", PLAN, "another line for seq"),
        ("wrong-shape", PLAN, "does not fit the schema"),
        ("steps-of-a-plan", PLAN, "steps of a plan"),
        ("half-a-line-then-dies", PLAN, 'status 9 after half a line: b\'{"seq": 2, "end"'),
        ("never-ends", SCHEDULE, "more than the 2000 steps that were asked for"),
    ],
)
def test_a_broken_protocol_fails_the_scenario(
    open_side: Open, vice: str, scenario: Scenario, says: str
) -> None:
    play = played(open_side(vice), scenario)

    assert play.observation is None
    assert says in str(play.failure)


def test_a_second_answer_is_told_as_one(open_side: Open) -> None:
    side = open_side("answers-twice")

    plays = [played(side, PLAN) for _ in range(3)]

    assert "another line for seq" in str(plays[-1].failure)


@pytest.mark.parametrize(
    ("vice", "says"),
    [
        ("answers-twice", "a line that nobody asked for, after its last end"),
        ("speaks-after-the-end", "after its last end: b'done!'"),
        ("dies-after-the-end", "the process ended with status 4"),
    ],
)
def test_what_comes_behind_the_last_end_is_told_once_and_within_a_moment(
    open_side: Open, vice: str, says: str
) -> None:
    side = open_side(vice)
    assert played(side, PLAN).failure is None
    began = time.monotonic()

    told = [text for text in (side.lost(), side.lost(), side.lost()) if text is not None]

    assert len(told) == 1
    assert told[0].startswith("zoo: ")
    assert says in told[0]
    assert time.monotonic() - began < 20


def test_a_driver_that_cannot_play_a_scenario_says_so_and_goes_on(open_side: Open, tmp_path: Path) -> None:
    side = open_side("driver-error")

    for _ in range(3):
        assert played(side, PLAN).failure == "the driver failed: KeyError: 'config'"

    assert starts(tmp_path) == 1


def test_a_hang_is_bounded_and_keeps_the_steps_so_far(open_side: Open) -> None:
    side = open_side("hangs-at-step-3", Limits(hello=20.0, line=1.0))
    long = Scenario(
        "preemption/x",
        "schedule",
        CONFIG,
        Timeline([msgspec.structs.replace(REQUEST, max_tokens=9, output=[1] * 9)], [], [], 2000),
    )

    began = time.monotonic()
    play = played(side, long)
    side.close()

    assert "no answer for 1 s" in str(play.failure)
    assert [step["scheduled"] for step in play.steps] == [FIRST, [["r0", 1]], [["r0", 1]]]
    assert time.monotonic() - began < 40, "two starts and two waits of one second, not the zoo's 60"


def test_a_process_that_does_not_read_a_long_question_is_bounded_too(open_side: Open) -> None:
    request = msgspec.structs.replace(REQUEST, prompt=[1000] * 100_000)  # more than a pipe holds
    scenario = Scenario("preemption/x", "schedule", CONFIG, Timeline([request], [], [], 2000))

    play = played(open_side("never-reads", Limits(hello=20.0, line=1.0)), scenario)

    assert "no answer for 1 s" in str(play.failure)


def test_no_process_outlives_close(open_side: Open) -> None:
    side = open_side("honest")
    side.hello()
    process = side.process
    assert process is not None

    side.close()

    assert process.wait(0) is not None


def test_what_a_process_started_ends_with_it(open_side: Open) -> None:
    play = played(open_side("leaves-a-child", Limits(hello=20.0, line=1.0)))

    children = [int(number) for number in re.findall(r"child (\d+)", str(play.failure))]
    assert len(children) == 2
    deadline = time.monotonic() + 10
    while any(map(is_running, children)) and time.monotonic() < deadline:
        time.sleep(0.05)  # they were killed, and the kernel takes its time
    assert not [child for child in children if is_running(child)]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_claim_that_hello_does_not_confirm_is_the_adapters_fault(open_side: Open) -> None:
    side = open_side("denies", claims={})

    with pytest.raises(InconclusiveError, match="does not confirm capability") as caught:
        side.hello()

    assert caught.value.hint is not None
    assert "the adapter is at fault" in caught.value.hint
    assert side.process is None


def test_what_the_file_claims_less_than_hello_is_no_fault(open_side: Open) -> None:
    few = 'observes.plan = ["status", "num_blocks"]\nobserves.schedule = ["end.kind", "end.outputs"]'
    claims = {"capabilities": '["auto-fit", "forced-tokens", "step-trace"]', "more": few}

    assert open_side("honest", claims=claims).hello()["capabilities"] == "all"


def test_a_field_that_is_claimed_and_left_out_is_named(open_side: Open) -> None:
    play = played(open_side("lacks-a-field", claims={}))

    assert "missing required field `free` - at `$.steps[0]`" in str(play.failure)


def test_a_field_that_is_not_claimed_may_be_left_out(open_side: Open) -> None:
    claims = {"more": 'observes.schedule = ["steps.scheduled", "end.kind", "end.outputs"]'}

    assert played(open_side("lacks-a-field", claims=claims)).failure is None


@pytest.mark.parametrize(
    ("clock", "says"),
    [
        ("", "None None"),
        ('clock.unit = "steps"', "None None"),
        ('clock = {unit = "ms", per_step = 25}', "{'unit': 'ms', 'per_step': 25} {'r0': 75}"),
    ],
)
def test_a_simulator_in_milliseconds_is_told_when_requests_arrive(
    open_side: Open, clock: str, says: str
) -> None:
    late = msgspec.structs.replace(REQUEST, at=3)
    scenario = Scenario("preemption/x", "schedule", CONFIG, Timeline([late], [], [], 2000))

    play = played(open_side("keeps-the-clock", claims={"more": clock}), scenario)

    assert f"its last words: {says}" in str(play.failure)


def test_silence_is_no_death(open_side: Open) -> None:
    side = open_side("honest")
    side.hello()
    assert side.process is not None

    with pytest.raises(Silence, match=r"no answer for 0\.1 s"):
        side.process.receive(0.1)


def test_the_scenario_arrives_with_every_field() -> None:
    wire = msgspec.json.decode(msgspec.json.encode(SCHEDULE))

    assert msgspec.convert(wire, Scenario) == SCHEDULE

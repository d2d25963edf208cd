"""A side in a process: every vice of the zoo becomes an error or a failed play, never a hang or a traceback."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from parity.errors import ExitCode, OracleError
from parity.observation import PlanOk, Schedule
from parity.process_side import STOP_SECONDS, Limits, ProcessSide
from parity.scenario import Config, Model, Request, Scenario, Timeline

ZOO = Path(__file__).with_name("zoo.py")
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
    prompt=[1000],
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

Open = Callable[..., ProcessSide]


@pytest.fixture
def open_side(tmp_path: Path) -> Iterator[Open]:
    sides: list[ProcessSide] = []

    def start(
        vice: str,
        limits: Limits = LONG,
        *,
        keep_native: bool = False,
        news: Callable[[str], None] | None = None,
    ) -> ProcessSide:
        environment = {"STATE": str(tmp_path / "starts"), "PATH": os.environ["PATH"]}
        command = [sys.executable, str(ZOO), vice]
        side = ProcessSide("zoo", command, tmp_path, environment, limits, keep_native, news)
        sides.append(side)
        return side

    yield start
    for side in sides:
        side.close()


def starts(tmp_path: Path) -> int:
    return int((tmp_path / "starts").read_text())


def test_a_plan_is_the_end_line_itself(open_side: Open) -> None:
    side = open_side("chatty")

    side.begin(PLAN)
    play = side.finish()

    assert isinstance(play.observation, PlanOk)
    assert (play.observation.num_blocks, play.failure, play.seconds) == (4, None, 0.25)


def test_a_schedule_is_its_steps_and_its_end(open_side: Open) -> None:
    side = open_side("none")

    side.begin(SCHEDULE)
    play = side.finish()

    assert isinstance(play.observation, Schedule)
    assert [step.scheduled for step in play.observation.steps] == [[("r0", 8)]]
    assert play.observation.end.kind == "done"


@pytest.mark.parametrize(("keep_native", "kept"), [(False, ()), (True, ({"own": [1, 2]},))])
def test_native_output_is_kept_where_it_was_asked_for(
    keep_native: bool, kept: tuple[object, ...], open_side: Open
) -> None:
    side = open_side("tells-more", keep_native=keep_native)

    side.begin(SCHEDULE)
    play = side.finish()

    assert play.native == kept
    assert isinstance(play.observation, Schedule)
    assert len(play.observation.steps) == 1


def test_a_step_without_the_native_output_that_was_asked_for_is_a_failure(open_side: Open) -> None:
    side = open_side("none", keep_native=True)

    side.begin(SCHEDULE)

    assert "a step without the native output" in str(side.finish().failure)


def test_one_process_serves_many_scenarios(open_side: Open, tmp_path: Path) -> None:
    side = open_side("none")

    for _ in range(20):
        side.begin(PLAN)
        assert side.finish().failure is None

    assert starts(tmp_path) == 1


@pytest.mark.parametrize(
    ("vice", "says"),
    [
        ("dies-at-start", "libfoo.so is missing"),
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
    with pytest.raises(OracleError, match="make setup"):
        ProcessSide("zoo", [str(tmp_path / "python")], tmp_path, {})


def test_a_side_that_dies_once_is_started_again_and_answers(open_side: Open, tmp_path: Path) -> None:
    said: list[str] = []
    side = open_side("dies-once", news=said.append)

    side.begin(SCHEDULE)
    play = side.finish()

    assert play.failure is None
    assert said == ["zoo: the process ended with status 9; starting it again …"]
    assert isinstance(play.observation, Schedule)
    assert len(play.observation.steps) == 1, "steps of the dead process must not be counted"
    assert starts(tmp_path) == 2


@pytest.mark.parametrize("vice", ["silent-at-start", "hangs"])
def test_a_side_that_owes_an_answer_is_not_asked_to_stop(vice: str, open_side: Open) -> None:
    """It would be waited for in vain."""
    side = open_side(vice)
    if vice == "hangs":
        side.begin(SCHEDULE)
    began = time.monotonic()

    side.close()

    assert time.monotonic() - began < STOP_SECONDS


def test_a_side_that_dies_again_fails_the_scenario_and_is_not_started_a_third_time(
    open_side: Open, tmp_path: Path
) -> None:
    side = open_side("dies-always")

    side.begin(SCHEDULE)
    first = side.finish()
    side.begin(SCHEDULE)
    second = side.finish()

    assert first.failure is not None
    assert "status 9" in first.failure
    assert len(first.steps) == 1, "the steps so far are kept"
    assert second.failure is not None
    assert "not started a third time" in second.failure
    assert starts(tmp_path) == 2


@pytest.mark.parametrize(
    ("vice", "says"),
    [
        ("not-json", "not JSON"),
        ("wrong-seq", "out of turn"),
        ("wrong-shape", "does not fit the schema"),
    ],
)
def test_a_broken_protocol_fails_the_scenario(open_side: Open, vice: str, says: str) -> None:
    side = open_side(vice)

    side.begin(PLAN)
    play = side.finish()

    assert play.observation is None
    assert play.failure is not None
    assert says in play.failure


def test_a_driver_that_cannot_play_a_scenario_says_so_and_goes_on(open_side: Open, tmp_path: Path) -> None:
    side = open_side("driver-error")

    for _ in range(3):
        side.begin(PLAN)
        play = side.finish()
        assert play.failure == "the driver failed: KeyError: 'config'"

    assert starts(tmp_path) == 1


def test_a_hang_is_bounded_and_keeps_the_steps_so_far(open_side: Open) -> None:
    side = open_side("hangs", Limits(hello=20.0, line=1.0))

    began = time.monotonic()
    side.begin(SCHEDULE)
    play = side.finish()
    side.close()

    assert play.failure is not None
    assert "no answer for 1 s" in play.failure
    assert [step["scheduled"] for step in play.steps] == [[["r0", 8]]]
    assert time.monotonic() - began < 30, "two starts and two waits of one second, not the zoo's 60"


def test_no_process_outlives_close(open_side: Open) -> None:
    side = open_side("none")
    side.hello()
    process = side._process
    assert process is not None

    side.close()

    assert process.poll() is not None


def test_the_scenario_arrives_with_every_field() -> None:
    wire = msgspec.json.decode(msgspec.json.encode(SCHEDULE))

    assert msgspec.convert(wire, Scenario) == SCHEDULE

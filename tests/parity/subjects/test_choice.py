"""Which scenarios a subject is compared in, and that of every other one it is told why not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from parity.errors import ExitCode, InconclusiveError
from parity.finding import NotCompared
from parity.scenario import Case, ServeScenario
from parity.subjects.capabilities import CAPABILITIES, needs
from parity.subjects.choice import check_sight, sort_out
from parity.subjects.fields import MINIMUM
from parity.subjects.subject import Subject
from tests.parity.served import case as served
from tests.parity.served import send, server_config
from tests.parity.subjects.kit import ENGINE, PROCESS, RUNNING, SERVER, changed, written
from tests.records.miniature import case

TIMELINE = case("preemption/stall", "schedule")


def script(*, fresh: bool = False, **config: Any) -> Case:
    of = served(send())
    assert isinstance(of.scenario, ServeScenario)
    scenario = msgspec.structs.replace(of.scenario, config=server_config(**config), fresh=fresh)
    return msgspec.structs.replace(of, scenario=scenario)


def told(of: Case, folder: Path, text: str) -> tuple[str, tuple[str, ...]] | None:
    """Why the subject is not compared in it; null where it is."""
    compared, others = sort_out([of], [written(folder, text)])
    assert len(compared) + len(others) == 1
    return None if compared else (others[0].why, others[0].missing)


def test_a_level_without_a_door_is_unsupported(tmp_path: Path) -> None:
    assert told(script(), tmp_path, PROCESS) == ("unsupported", ("level serve",))
    assert told(case(), tmp_path, SERVER) == ("unsupported", ("level plan",))


def test_every_capability_that_is_missing_is_named(tmp_path: Path) -> None:
    able = 'capabilities = ["auto-fit", "step-trace", "forced-tokens"]\n' + PROCESS
    unable = 'capabilities = ["forced-tokens"]\n' + PROCESS
    wanted = msgspec.structs.replace(TIMELINE, needs=("resets", "priority"))

    assert told(TIMELINE, tmp_path, able) is None
    assert told(wanted, tmp_path, able) == ("unsupported", ("priority", "resets"))
    assert told(wanted, tmp_path, unable) == ("unsupported", ("auto-fit", "step-trace", "priority", "resets"))
    assert told(wanted, tmp_path, 'capabilities = "all"\n' + PROCESS) is None


def test_whoever_tells_totals_needs_no_trace_of_the_steps(tmp_path: Path) -> None:
    text = 'profile = "aggregate"\ncapabilities = ["auto-fit", "forced-tokens"]\n' + PROCESS

    assert told(TIMELINE, tmp_path, text) is None


def test_a_value_that_no_flag_can_ask_for_is_unsupported_and_a_default_needs_none(tmp_path: Path) -> None:
    table = changed(SERVER, '{num_blocks = "--blocks"}', '{num_blocks = "-b", dtype = {float16 = ["-h"]}}')

    assert told(script(), tmp_path, SERVER) is None
    assert told(script(block_size=8, dtype="float16"), tmp_path, SERVER) == (
        "unsupported",
        ("flag dtype", "flag block_size"),
    )
    assert told(script(dtype="float16"), tmp_path, table) is None
    assert told(script(dtype="bfloat16"), tmp_path, table) == ("unsupported", ("flag dtype",))
    assert told(script(generation_config={}), tmp_path, SERVER) == (
        "unsupported",
        ("flag generation_config",),
    )


def test_a_server_that_runs_is_compared_in_what_it_was_started_with(tmp_path: Path) -> None:
    assert told(script(), tmp_path, RUNNING) is None
    assert told(script(num_blocks=4, shutdown_timeout=3), tmp_path, RUNNING) == (
        "unobserved",
        ("started with num_blocks = 4", "started with shutdown_timeout = 3"),
    )
    assert told(script(model="tiny-qwen2"), tmp_path, RUNNING) == (
        "unobserved",
        ('started with model = "tiny-qwen2"',),
    )
    assert told(script(fresh=True), tmp_path, RUNNING) == ("unobserved", ("a fresh server",))
    smaller = changed(RUNNING, "num_blocks = 64", "num_blocks = 64, max_num_seqs = 2")
    assert told(script(), tmp_path, smaller) == ("unobserved", ("started with max_num_seqs = 16",))
    assert told(script(max_num_seqs=2), tmp_path, smaller) is None


def test_what_a_running_server_cannot_is_unsupported_whatever_it_was_started_with(tmp_path: Path) -> None:
    signalled = msgspec.structs.replace(script(num_blocks=4), needs=("signals",))
    few = changed(RUNNING, '"all"', '["metrics"]')

    assert told(signalled, tmp_path, RUNNING) == ("unsupported", ("signals",))
    assert told(script(num_blocks=4), tmp_path, few) == ("unsupported", ("float32-weights",))
    assert told(script(), tmp_path, changed(RUNNING, '"all"', '["metrics", "float32-weights"]')) is None


def test_of_two_subjects_each_must_be_able(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    able = written(tmp_path, 'capabilities = "all"\n' + PROCESS)
    unable = written(tmp_path / "other", PROCESS)

    assert sort_out([case(), TIMELINE], [able]) == ([case(), TIMELINE], ())
    for pair in ([able, unable], [unable, able]):
        compared, others = sort_out([case(), TIMELINE], pair)
        assert compared == []
        assert others == (
            NotCompared("auto-fit/null-block", "plan", "unsupported", ("auto-fit",)),
            NotCompared(
                "preemption/stall", "schedule", "unsupported", ("auto-fit", "forced-tokens", "step-trace")
            ),
        )


def test_the_suite_is_sorted_out_without_a_rest(suite: list[Case], tmp_path: Path) -> None:
    """Whatever one capability is missing: exactly the scenarios that need it are out, and say so."""
    for name in CAPABILITIES:
        able = [f'"{other}"' for other in CAPABILITIES if other != name]
        text = changed(ENGINE, '"all"', f"[{', '.join(able)}]")
        driven = [of for of in suite if of.scenario.level != "serve"]

        compared, others = sort_out(driven, [written(tmp_path, text)])

        out = {of.id for of in driven if name in needs(of)}
        assert {item.id for item in others if item.missing == (name,)} >= out
        assert {of.id for of in compared}.isdisjoint(out)
        assert len(compared) + len(others) == len(driven)


@pytest.mark.parametrize(("level", "field"), [(level, name) for level in MINIMUM for name in MINIMUM[level]])
def test_below_the_least_sight_nothing_is_concluded(level: Any, field: str, tmp_path: Path) -> None:
    least = list(MINIMUM[level])

    def subject(names: list[str]) -> Subject:
        text = SERVER if level == "serve" else PROCESS
        return written(tmp_path, f"observes = {{{level} = {json.dumps(names)}}}\n{text}").subject

    check_sight(subject(least), [level])
    with pytest.raises(InconclusiveError, match=f"does not show {field} at level {level}") as caught:
        check_sight(subject([name for name in least if name != field]), [level])
    assert caught.value.exit_code is ExitCode.INCONCLUSIVE
    assert "observe them" in str(caught.value.hint)

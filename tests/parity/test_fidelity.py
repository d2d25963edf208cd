"""The verb `fidelity`: what it prints and how it ends when the doors agree, differ or fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parity import fidelity, oracle_side
from parity.cli.main import main
from parity.oracle_side import Way
from tests.parity.stand_in import MEASURED, StandIn

ID = "auto-fit/null-block"
SAME = "through the scheduler and through the engine core of vLLM 0.27.1: 1 the same (1 of level plan)"


@pytest.fixture
def core(here: Path, stand_in: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:  # noqa: ARG001
    """Stand-ins for both doors; what it is called with are the vices of the core's, and how often it has played."""

    def use(played: dict[str, int] | None = None, **vices: Any) -> None:
        def start(*_: Any, way: Way | None = None) -> StandIn:
            door = StandIn(**vices) if way == Way("core") else StandIn()
            door.times.update(played or {})
            return door

        monkeypatch.setattr(fidelity, "start_oracle", start)

    monkeypatch.setattr(oracle_side, "measure_oracle", lambda *_: MEASURED)
    use()
    return use


@pytest.mark.usefixtures("core")
def test_doors_that_agree_are_one_line_and_0(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["fidelity", ID])

    assert (code, capsys.readouterr().out) == (0, SAME + "\n")


@pytest.mark.usefixtures("core")
def test_without_names_all_of_the_levels_plan_and_schedule_is_played(
    capsys: pytest.CaptureFixture[str], suite: list[Any]
) -> None:
    code = main(["fidelity", "--json"])

    shown = json.loads(capsys.readouterr().out)
    played = [case for case in suite if case.scenario.level != "serve"]
    assert code == 0
    assert shown["scenarios"] == shown["same"] == len(played) == sum(shown["levels"].values())
    assert (shown["differ"], shown["failed"]) == ([], [])


def test_doors_that_differ_say_where_and_end_with_1(
    core: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    core(played={ID: 1}, flaky=frozenset({ID}))

    code = main(["fidelity", ID])

    lines = capsys.readouterr().out.splitlines()
    assert code == 1
    assert lines[0].startswith(f"{ID}: num_blocks: scheduler ")
    assert lines[0].endswith(", engine core 99")
    assert lines[1].endswith("1 different (1 of level plan)")


def test_a_door_that_fails_concludes_nothing(
    core: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    core(fails=frozenset({ID}))

    code = main(["fidelity", ID, "--json"])

    shown = json.loads(capsys.readouterr().out)
    assert code == 2
    assert (shown["same"], shown["differ"]) == (0, [])
    assert shown["failed"] == [{"id": ID, "failure": "oracle: the process ended with status 9"}]

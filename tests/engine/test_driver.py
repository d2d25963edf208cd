"""The driver's contract: plain JSON in the order of the observation types, and every failure in its place."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

import engine
from engine import capacity, timeline
from engine.driver import observe
from engine.integrity import IntegrityError
from parity.observation import decode, plain
from tests.engine.scenes import Requests, config, plan, play, scenario


def busy() -> dict[str, Any]:
    make = Requests().make
    return scenario(
        config(num_blocks=7),
        [make(34, 35), make(34, 35, stop_token_ids=[2503], eos_token_id=1)],
        aborts=[{"id": "r0", "at": 20, "when": "before_update"}],
        resets=[{"at": 3, "running": True}],
    )


@pytest.mark.parametrize("level", ["plan", "schedule"])
def test_an_observation_is_plain_json_with_the_contracts_keys_in_order(level: str) -> None:
    actual = observe(busy() | {"level": level})

    assert json.loads(json.dumps(actual)) == actual
    assert json.dumps(msgspec.to_builtins(plain(decode(level, actual)))) == json.dumps(actual)


def test_a_refusal_is_plain_json_with_the_contracts_keys_in_order() -> None:
    actual = plan(num_blocks=4, max_model_len=65)

    assert json.dumps(plain(decode("plan", actual))) == json.dumps(actual)


def test_the_same_scenario_gives_the_same_observation_and_is_left_as_it_was() -> None:
    asked = busy()
    before = json.dumps(asked)

    first, second = observe(asked), observe(asked)

    assert first == second
    assert json.dumps(asked) == before


def test_each_step_is_handed_over_as_it_happens() -> None:
    seen: list[dict[str, Any]] = []

    actual = observe(busy(), on_step=seen.append)

    assert seen == actual["steps"]


def test_a_refused_plan_plays_no_step() -> None:
    actual = play(config(num_blocks=4, max_model_len=65), [Requests().make(8, 4)])

    assert actual["plan"]["kind"] == "kv-cache-too-small"
    assert actual["steps"] == []
    assert actual["end"] == {"kind": "refused", "period": None, "error": None, "outputs": [["r0", 0]]}


def test_a_policy_reaches_the_timeline() -> None:
    """Reserving the null block fits 48 tokens, so the request of the case ends by length after 40."""
    asked = scenario(config(num_blocks=4), [Requests().make(8, 56)])

    actual = observe(asked, {"null-block-capacity": "reserve"})

    assert actual["plan"]["max_model_len"] == 48
    assert actual["end"]["kind"] == "done"
    assert actual["end"]["outputs"] == [["r0", 40]]


def test_a_stop_id_is_named_and_eos_is_not() -> None:
    make = Requests().make
    requests = [make(8, 4, stop_token_ids=[1501]), make(8, 4, eos_token_id=2501)]

    actual = play(config(), requests)

    assert actual["steps"][1]["finished"] == [["r0", "stop", 1501], ["r1", "stop", None]]


def test_an_engine_that_raises_in_a_plan_is_an_unrecognised_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("by nothing\nat all")

    monkeypatch.setattr(capacity, "plan", broken)

    assert plan()["kind"] == "unrecognised: ZeroDivisionError: by nothing"


def test_a_broken_invariant_ends_the_timeline_before_the_step_is_listed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: object) -> None:
        raise IntegrityError("3 free + 1 referenced + 1 null are not all 7 blocks")

    monkeypatch.setattr(timeline, "check_integrity", broken)

    actual = play(config(), [Requests().make(8, 4)])

    assert actual["steps"] == []
    assert (actual["end"]["kind"], actual["end"]["error"]) == ("error", "IntegrityError")
    assert "3 free + 1 referenced + 1 null are not all 7 blocks" in caplog.text


@pytest.mark.parametrize(
    ("path", "value"), [(("config", "block_sise"), 16), (("timeline", "requests", 0, "n"), 2)]
)
def test_a_key_off_the_contract_is_refused(path: tuple[Any, ...], value: object) -> None:
    asked = busy()
    where: Any = asked
    for key in path[:-1]:
        where = where[key]
    where[path[-1]] = value

    with pytest.raises(msgspec.ValidationError, match=str(path[-1])):
        observe(asked)


def test_level_schedule_needs_a_timeline() -> None:
    with pytest.raises(msgspec.ValidationError, match="timeline"):
        observe(busy() | {"timeline": None})


def test_the_engine_imports_neither_oracle_nor_parity() -> None:
    for file in Path(engine.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            foreign = {name.split(".")[0] for name in names} & {"oracle", "parity", "vllm", "tests"}
            assert not foreign, f"{file.name} imports {foreign}"


def test_plan_and_schedule_need_the_standard_library_and_msgspec_only() -> None:
    code = (
        "import sys\nbefore = set(sys.modules)\n"
        "import engine.driver, engine.startup, engine.cli.plan, engine.cli.generate\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(new - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(engine.__file__).parent.parent,
        capture_output=True,
        text=True,
        check=True,
    )

    # msgspec itself looks for typing_extensions where it is installed.
    assert set(done.stdout.split()) - {"typing_extensions"} == {"engine", "msgspec"}

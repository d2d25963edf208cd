"""How the zoo is played: a subject's file for a vice, and upstream's part from the golden lines, so that no upstream is needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from parity import session
from parity.ask import Ask
from parity.finding import Decided, Outcome, ScenarioResult
from parity.report.progress import RunProgress
from parity.root import CODE_ROOT
from parity.scenario import Scenario
from parity.session import run
from parity.side import Play
from parity.subjects import players
from parity.subjects.golden import Golden, load_golden
from parity.subjects.subject import Loaded, load_subject
from parity.suite import load_suite
from tests.parity.stand_in import MEASURED

SUITE = cache(load_suite)  # it is read anew for each run, and does not change here
GOLDEN: dict[str, Golden] = {item.id: item for item in load_golden()[1]}

TOML = """
name = "zoo"
mirrors = "vllm"
levels = ["plan", "schedule"]
capabilities = {capabilities}
profile = "{profile}"
records = "records"
suite = "0.1"
folder = "{root}"
{more}
[door.process]
command = ["{{python}}", "-m", "tests.parity.zoo", {vice}]
handshake = 20
step = {step}
scenario = {scenario}
"""


class GoldenOracle:
    """A side that answers what upstream answered."""

    name = "oracle"

    def __init__(self) -> None:
        self._id = ""

    def hello(self) -> dict[str, Any]:
        return {"name": "golden", "version": MEASURED.version, "model_runner": "v1"}

    def begin(self, scenario: Scenario) -> None:
        self._id = scenario.id

    def finish(self) -> Play:
        return Play(GOLDEN[self._id].observation, None, 0.0)

    def close(self) -> None:
        """No process to end."""


def write_subject(
    folder: Path,
    vice: str,
    *,
    step: float = 20,
    scenario: float = 60,
    capabilities: str = '"all"',
    profile: str = "exact",
    more: str = "",
) -> Path:
    """The file of a subject of the zoo; `vice` may be followed by what it is about, after a blank."""
    path = folder / "zoo.toml"
    words = ", ".join(f'"{word}"' for word in vice.split())
    path.write_text(
        TOML.format(
            capabilities=capabilities,
            profile=profile,
            root=CODE_ROOT,
            more=more,
            vice=words,
            step=step,
            scenario=scenario,
        )
    )
    return path


def subject(folder: Path, vice: str, **limits: Any) -> Loaded:
    return load_subject(write_subject(folder, vice, **limits))


Played = Callable[..., Outcome]


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Played:
    """A whole run of a vice over these scenarios, against the golden lines."""
    monkeypatch.setattr(session, "load_suite", SUITE)
    monkeypatch.setattr(session, "measure_oracle", lambda *_: MEASURED)
    monkeypatch.setattr(players, "start_oracle", lambda *_: GoldenOracle())

    def play(vice: str, *ids: str, repeat: int = 1, **limits: Any) -> Outcome:
        ask = Ask(
            CODE_ROOT,
            ids=ids,
            repeat=repeat,
            subject=str(write_subject(tmp_path, vice, **limits)),
            out=tmp_path / "run.jsonl",
        )
        return run(ask, RunProgress.silent()).outcome

    return play


def only(outcome: Outcome) -> ScenarioResult:
    (result,) = outcome.scenarios
    return result


def findings(outcome: Outcome) -> list[Decided]:
    return [item for result in outcome.scenarios for item in result.decided]

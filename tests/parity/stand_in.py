"""The engine's own untouched answers as a stand-in for the oracle, for whole runs without it.

Its observations are made before anything is planted, so what is planted shows on the subject only.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oracle.verify import Measured
from parity import session
from parity.ask import Ask
from parity.engine_side import EngineSide
from parity.finding import Outcome, Verdict
from parity.report.progress import RunProgress
from parity.root import CODE_ROOT
from parity.scenario import Json, Scenario
from parity.serve.launcher import Launcher
from parity.session import run
from parity.side import Play
from parity.subjects import players
from parity.subjects.subject import DEFAULT, find_subject, load_subject
from parity.suite import load_suite

MEASURED = Measured(
    pin="vllm-0.27.1",
    version="0.27.1",
    source="wheel",
    commit=None,
    wheel_sha256=None,
    python="3.11",
    torch=None,
    package=Path("vllm"),
    prefix=Path("env"),
    files={},
    mismatches=(),
)


@cache
def untouched_plays() -> dict[str, Play]:
    side = EngineSide()
    plays = {}
    for case in load_suite(CODE_ROOT):
        if not isinstance(case.scenario, Scenario):
            continue
        side.begin(case.scenario)
        plays[case.id] = side.finish()
    return plays


class StandIn:
    """A side that answers what the untouched engine answered; `fails` are ids of scenarios that it dies in.

    Those of `flaky` have another block count in each second play; `times` counts the plays. `native` is what every
    play has as its steps' native output.
    """

    name = "oracle"

    def __init__(
        self,
        fails: frozenset[str] = frozenset(),
        flaky: frozenset[str] = frozenset(),
        native: tuple[Json, ...] = (),
    ) -> None:
        self._fails = fails
        self._native = native
        self._flaky = flaky
        self.times: dict[str, int] = {}
        self._id = ""

    def hello(self) -> dict[str, Any]:
        return {"name": "stand-in", "version": "0.27.1", "model_runner": "v1"}

    def begin(self, scenario: Scenario) -> None:
        self._id = scenario.id

    def finish(self) -> Play:
        if self._id in self._fails:
            return Play(None, "the process ended with status 9", 0.0)
        play = untouched_plays()[self._id]
        self.times[self._id] = self.times.get(self._id, 0) + 1
        if self._id in self._flaky and self.times[self._id] % 2 == 0:
            assert play.observation is not None
            changed = msgspec.structs.replace(play.observation, num_blocks=99)  # type: ignore[type-var]
            return msgspec.structs.replace(play, observation=changed)
        return msgspec.structs.replace(play, native=self._native)

    def close(self) -> None:
        """No process to end."""


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def use(**vices: frozenset[str]) -> None:
        monkeypatch.setattr(session, "measure_oracle", lambda *_: MEASURED)
        monkeypatch.setattr(players, "start_oracle", lambda *_: StandIn(**vices))

    untouched_plays()
    use()
    return use


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A tree with the committed scenarios, pins, subjects and records, whose records may be changed."""
    root = tmp_path / "clone"
    for folder in ("parity/scenarios", "oracle/pins", "subjects", "records"):
        shutil.copytree(CODE_ROOT / folder, root / folder)
    return root


def engine_launcher() -> Launcher:
    """How the server of our own engine is started."""
    door = load_subject(find_subject(CODE_ROOT, DEFAULT)).subject.door.serve
    assert door is not None
    return door.launcher(DEFAULT)


def serve_instead_of_upstream(monkeypatch: pytest.MonkeyPatch, launcher: Launcher) -> None:
    """The reference's server at level serve is that of this launcher, in the harness's own environment."""
    monkeypatch.setattr(players, "load_launcher", lambda _: launcher)
    monkeypatch.setattr(players, "_upstream", lambda *_: (sys.executable, dict(os.environ)))


def check(root: Path, **asked: Any) -> Outcome:
    """A run of the levels that need no server."""
    return run(Ask(root=root, depth="quick", **asked), RunProgress()).outcome


def of(outcome: Outcome, name: str) -> Verdict:
    return next(result.verdict for result in outcome.scenarios if result.id == name)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The command line works on this checkout, and its run files go to a folder of the test's."""
    monkeypatch.chdir(CODE_ROOT)
    return tmp_path

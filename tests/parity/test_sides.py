"""Sides are started when a scenario needs them, and not before."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from oracle.pins import load_pin
from parity import sides as module
from parity.ask import Ask
from parity.errors import InconclusiveError, RunFileError, UsageError
from parity.finding import Outcome
from parity.report.progress import RunProgress
from parity.root import CODE_ROOT
from parity.scenario import Case
from parity.serve.launcher import load_launcher, shipped
from parity.serve.side import ServeSide, Times
from parity.session import run
from parity.sides import MODELS, Sides, check_models
from parity.suite import load_suite, select
from tests.parity.stand_in import MEASURED

pytestmark = pytest.mark.usefixtures("stand_in")
WEDGE = "serving/null-block-wedge"


def played(*ids: str, root: Path = CODE_ROOT, out: Path, launcher: Path | None = None) -> Outcome:
    return run(Ask(root, ids=ids, launcher=launcher, out=out / "run.jsonl"), RunProgress()).outcome


def test_without_models_a_script_is_refused_before_anything_is_written(
    checkout: Path, tmp_path: Path
) -> None:
    with pytest.raises(InconclusiveError, match="level serve needs") as caught:
        played(WEDGE, root=checkout, out=tmp_path)

    assert caught.value.hint is not None
    assert "make model" in caught.value.hint
    assert not list(tmp_path.glob("run.jsonl*"))


def test_without_torch_a_script_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / MODELS).mkdir()
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda _: None)

    with pytest.raises(InconclusiveError, match="torch"):
        check_models(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        ("name = ", "Invalid value"),
        (
            'name = "a"\ncommand = ["x"]\n[ready]\npath = "/"\nseconds = 1\n[flags]\n',
            "command has no {model}",
        ),
    ],
)
def test_a_launcher_that_is_none_is_a_mistake_of_the_users(
    text: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = tmp_path / "mine.toml"
    if text is not None:
        launcher.write_text(text)
    monkeypatch.setattr(module, "check_models", lambda _: None)

    with pytest.raises(UsageError, match=said):
        played(WEDGE, out=tmp_path, launcher=launcher)

    assert not list(tmp_path.glob("run.jsonl*"))


NO_POLICY = """
name = "mine"
command = ["{python}", "{model}", "{port}"]
[ready]
path = "/"
seconds = 1
[flags]
num_blocks = []
max_model_len = []
"""


@pytest.fixture
def equipped(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout that could serve tiny-opt, with a reference that takes every configuration."""

    def reference(self: Sides) -> ServeSide:
        setup = self._setup(load_launcher(shipped("nullblock")), sys.executable, dict(os.environ))
        return ServeSide("oracle", setup, self._progress.server, self.times["oracle"])

    (checkout / MODELS / "tiny-opt").mkdir(parents=True)
    (checkout / "mine.toml").write_text(NO_POLICY)
    monkeypatch.setattr(Sides, "_upstream", reference)
    monkeypatch.setattr(module, "check_models", lambda _: None)
    return checkout


def prepare(root: Path, *plays: tuple[Case, dict[str, str]]) -> Sides:
    sides = Sides(Ask(root, launcher=root / "mine.toml"), load_pin(root), MEASURED, RunProgress())
    sides.prepare(plays)
    return sides


def of(root: Path, name: str) -> Case:
    return select(load_suite(root), [name])[0]


def test_what_can_be_started_is_prepared_without_a_start(equipped: Path) -> None:
    sides = prepare(equipped, (of(equipped, WEDGE), {}))

    assert sides.logs is not None
    assert sides.logs.is_dir()
    assert sides.times == {"oracle": Times(), "subject": Times()}
    assert sides.server is not None
    assert sides.server.name == "mine"
    assert sides.server.digest == f"sha256:{hashlib.sha256(NO_POLICY.encode()).hexdigest()}"


def test_our_own_launcher_is_nobody_elses_server(equipped: Path) -> None:
    (equipped / "mine.toml").write_bytes(shipped("nullblock").read_bytes())

    assert prepare(equipped, (of(equipped, WEDGE), {})).server is None


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda root: (root / MODELS / "tiny-opt").rmdir(), "tiny-opt is not there"),
        (
            lambda root: (root / "mine.toml").write_text(NO_POLICY.replace("num_blocks = []", "")),
            "no flag for num_blocks",
        ),
        (
            lambda root: (root / "mine.toml").write_text(NO_POLICY.replace("{python}", "no-such-thing")),
            "there is no command no-such-thing",
        ),
    ],
)
def test_a_users_mistake_is_found_before_anything_is_played(
    spoil: Callable[[Path], object], said: str, equipped: Path
) -> None:
    spoil(equipped)

    with pytest.raises(UsageError, match=said) as caught:
        played(
            "auto-fit/null-block",
            WEDGE,
            root=equipped,
            out=equipped,
            launcher=equipped / "mine.toml",
        )

    assert caught.value.hint
    assert not list(equipped.glob("run.jsonl*"))


def test_a_policy_that_the_launcher_cannot_pass_on_is_found_at_a_replay_too(equipped: Path) -> None:
    wedge = of(equipped, WEDGE)

    with pytest.raises(UsageError, match="no flag for a policy"):
        prepare(equipped, (wedge, {}), (wedge, {"null-block-capacity": "reserve"}))


@pytest.mark.parametrize("text", [None, NO_POLICY])
def test_a_server_without_a_script_to_play_is_a_mistake(text: str | None, equipped: Path) -> None:
    path = equipped / "mine.toml"
    path.unlink()
    if text is not None:
        path.write_text(text)

    with pytest.raises(UsageError, match="No such file" if text is None else "none of its scenarios"):
        run(Ask(equipped, depth="quick", launcher=path, out=equipped / "run.jsonl"), RunProgress())

    assert not list(equipped.glob("run.jsonl*"))


def test_logs_that_cannot_be_kept_are_one_line(equipped: Path) -> None:
    (equipped / "runs").write_text("a file")

    with pytest.raises(
        RunFileError, match=r"the servers' logs cannot be kept in .*: Not a directory"
    ) as caught:
        played(WEDGE, root=equipped, out=equipped, launcher=equipped / "mine.toml")

    assert caught.value.hint


def test_one_side_that_cannot_be_closed_keeps_no_other_up(equipped: Path) -> None:
    closed: list[str] = []

    class Reference(ServeSide):
        def close(self) -> None:
            closed.append("oracle")

    class Subject(ServeSide):
        def close(self) -> None:
            closed.append("subject")
            raise ZeroDivisionError

    sides = prepare(equipped, (of(equipped, WEDGE), {}))
    oracle, subject = sides.pair(of(equipped, WEDGE), {})
    oracle.__class__, subject.__class__ = Reference, Subject

    with pytest.raises(ZeroDivisionError):
        sides.close()

    assert sorted(closed) == ["oracle", "subject"]


def test_plans_and_schedules_start_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_root: Path) -> None:
        raise AssertionError("a server was asked for")

    monkeypatch.setattr(module, "check_models", refuse)

    assert played("auto-fit/null-block", out=tmp_path).exit_code == 0

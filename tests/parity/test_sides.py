"""Sides are started when a scenario needs them, and not before."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity import sides as module
from parity.ask import Ask
from parity.errors import InconclusiveError, UsageError
from parity.finding import Outcome
from parity.report.progress import RunProgress
from parity.root import CODE_ROOT
from parity.session import run
from parity.sides import MODELS, check_models

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


def test_plans_and_schedules_start_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_root: Path) -> None:
        raise AssertionError("a server was asked for")

    monkeypatch.setattr(module, "check_models", refuse)

    assert played("auto-fit/null-block", out=tmp_path).exit_code == 0

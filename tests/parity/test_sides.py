"""Sides are started when a scenario needs them, and not before."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from oracle.pins import load_pin
from parity.ask import Ask
from parity.errors import InconclusiveError, RunFileError, UsageError
from parity.finding import NotCompared, Outcome
from parity.report.progress import RunProgress
from parity.root import CODE_ROOT
from parity.scenario import Case
from parity.serve.side import ServeSide, Times
from parity.session import run
from parity.sides import Sides
from parity.subjects import players as module
from parity.subjects.players import MODELS, check_models
from parity.suite import load_suite, select
from tests.parity.stand_in import MEASURED, engine_launcher, serve_instead_of_upstream

pytestmark = pytest.mark.usefixtures("stand_in")
WEDGE = "serving/null-block-wedge"


MINE = """
name = "mine"
mirrors = "vllm"
levels = ["plan", "serve"]
capabilities = "all"
records = "records"
suite = "0.1"
[door]
inprocess = true
[door.serve]
command = ["{python}", "{model}", "{port}"]
ready = {path = "/", seconds = 1}
flags = {num_blocks = [], max_model_len = []}
"""


def played(*ids: str, root: Path = CODE_ROOT, out: Path, subject: Path | None = None) -> Outcome:
    named = None if subject is None else str(subject)
    return run(Ask(root, ids=ids, subject=named, out=out / "run.jsonl"), RunProgress()).outcome


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
        (None, "there is no subject file"),
        ("name = ", "Invalid value"),
        (MINE.replace('"{model}", ', ""), "command has no {model}"),
    ],
)
def test_a_subject_that_is_none_is_a_mistake_of_the_users(
    text: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = tmp_path / "mine.toml"
    if text is not None:
        subject.write_text(text)
    monkeypatch.setattr(module, "check_models", lambda _: None)

    with pytest.raises(UsageError, match=said):
        played(WEDGE, out=tmp_path, subject=subject)

    assert not list(tmp_path.glob("run.jsonl*"))


@pytest.fixture
def equipped(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout that could serve tiny-opt, with a reference that takes every configuration."""

    (checkout / MODELS / "tiny-opt").mkdir(parents=True)
    (checkout / "mine.toml").write_text(MINE)
    serve_instead_of_upstream(monkeypatch, engine_launcher())
    monkeypatch.setattr(module, "check_models", lambda _: None)
    return checkout


def prepare(root: Path, *plays: tuple[Case, dict[str, str]]) -> Sides:
    sides = Sides(Ask(root, subject=str(root / "mine.toml")), load_pin(root), MEASURED, RunProgress())
    sides.prepare(plays)
    return sides


def of(root: Path, name: str) -> Case:
    return select(load_suite(root), [name])[0]


def test_what_can_be_started_is_prepared_without_a_start(equipped: Path) -> None:
    sides = prepare(equipped, (of(equipped, WEDGE), {}))

    assert sides.logs is not None
    assert sides.logs.is_dir()
    assert sides.times == {"oracle": Times(), "subject": Times()}
    line = sides.held.line(sides.subject_version)
    assert (line.name, line.doors, line.version) == ("mine", ("inprocess", "serve"), None)
    assert line.digest == f"sha256:{hashlib.sha256(MINE.encode()).hexdigest()}"


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda root: (root / MODELS / "tiny-opt").rmdir(), "tiny-opt is not there"),
        (
            lambda root: (root / "mine.toml").write_text(MINE.replace("{python}", "no-such-thing")),
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
            subject=equipped / "mine.toml",
        )

    assert caught.value.hint
    assert not list(equipped.glob("run.jsonl*"))


def test_a_policy_that_the_launcher_cannot_pass_on_is_found_at_a_replay_too(equipped: Path) -> None:
    wedge = of(equipped, WEDGE)

    with pytest.raises(UsageError, match="no flag for a policy"):
        prepare(equipped, (wedge, {}), (wedge, {"null-block-capacity": "reserve"}))


def test_a_script_that_no_flag_can_start_is_not_compared_and_the_rest_is(equipped: Path) -> None:
    (equipped / "mine.toml").write_text(MINE.replace("num_blocks = [], ", ""))

    outcome = played(
        "auto-fit/null-block", WEDGE, root=equipped, out=equipped, subject=equipped / "mine.toml"
    )

    assert [result.id for result in outcome.scenarios] == ["auto-fit/null-block"]
    assert outcome.not_compared == (NotCompared(WEDGE, "serve", "unsupported", ("flag num_blocks",)),)


def test_a_server_without_a_script_to_play_examines_nothing(equipped: Path) -> None:
    text = MINE.replace('"plan", ', "").replace("[door]\ninprocess = true\n", "")
    (equipped / "mine.toml").write_text(text)
    asked = Ask(equipped, depth="quick", subject=str(equipped / "mine.toml"), out=equipped / "run.jsonl")

    with pytest.raises(
        InconclusiveError, match=r"nothing was examined, of \d+ scenarios: .* level schedule; .* level plan"
    ):
        run(asked, RunProgress())

    assert not list(equipped.glob("run.jsonl*"))


def test_logs_that_cannot_be_kept_are_one_line(equipped: Path) -> None:
    (equipped / "runs").write_text("a file")

    with pytest.raises(
        RunFileError, match=r"the servers' logs cannot be kept in .*: Not a directory"
    ) as caught:
        played(WEDGE, root=equipped, out=equipped, subject=equipped / "mine.toml")

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

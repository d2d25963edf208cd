"""Faults that a port would not notice, planted in our own server: each turns a run red, and is ours; and a server that is killed.

The reference is the same server without the fault, so that only the planted difference can show.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from parity.ask import Ask
from parity.finding import Outcome, Verdict
from parity.report.progress import RunProgress
from parity.root import CODE_ROOT
from parity.serve.server import Server
from parity.serve.side import ServeSide
from parity.session import run
from parity.side import Play
from parity.subjects.subject import DEFAULT, FOLDER
from tests.parity.serve.kit import wait_gone
from tests.parity.stand_in import engine_launcher, serve_instead_of_upstream

pytestmark = [pytest.mark.model, pytest.mark.usefixtures("stand_in")]

STREAM = "serving/stream-usage/completion-last"
LOGPROBS = "serving/logprobs-range/two"
REFUSED = "serving/over-long-max-tokens/completion-5000"
WEDGE = "serving/null-block-wedge"
SCRIPTS = (STREAM, LOGPROBS, REFUSED)
FAULTS = {
    "comment": (STREAM, "exchanges[0].stream.rest"),
    "done": (STREAM, "exchanges[0].stream.rest"),
    "logprob": (LOGPROBS, "exchanges[0].body.choices[0].logprobs.token_logprobs"),
    "usage": (LOGPROBS, "exchanges[0].body.usage"),
    "status": (REFUSED, "exchanges[0].status"),
}


@pytest.fixture(autouse=True)
def own_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    serve_instead_of_upstream(monkeypatch, engine_launcher())


def subject_of(fault: str, folder: Path) -> str:
    """Our engine as a subject, with the changed server in the place of ours."""
    text = (CODE_ROOT / FOLDER / f"{DEFAULT}.toml").read_text()
    changes = {
        '"-m", "engine.cli.main"': f'"-m", "tests.parity.serve.changed_server", "{fault}"',
        'folder = ".."': f'folder = "{CODE_ROOT}"',
        'records = "../records"': f'records = "{CODE_ROOT}/records"',
    }
    for old, new in changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    path = folder / f"{fault}.toml"
    path.write_text(text)
    return str(path)


def played(folder: Path, *ids: str, subject: str | None = None) -> Outcome:
    ask = Ask(CODE_ROOT, ids=ids, subject=subject, out=folder / "run.jsonl")
    return run(ask, RunProgress()).outcome


def test_without_a_fault_the_same_scripts_match(tmp_path: Path) -> None:
    outcome = played(tmp_path, *SCRIPTS, subject=subject_of("none", tmp_path))

    assert outcome.counts == {"MATCH": len(SCRIPTS)}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_what_goes_out_is_new_and_ours(fault: str, tmp_path: Path) -> None:
    scenario, at = FAULTS[fault]

    outcome = played(tmp_path, scenario, subject=subject_of(fault, tmp_path))

    assert outcome.exit_code == 1
    (result,) = outcome.scenarios
    assert {item.verdict for item in result.decided} == {Verdict.NEW}
    assert {item.finding.attribution for item in result.decided} == {"ours"}
    assert result.decided[0].finding.at.startswith(at)


@pytest.mark.parametrize("victim", ["oracle", "subject"])
def test_a_server_that_is_killed_in_mid_run_makes_it_void(
    victim: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[int] = []
    serve = Server.await_ready

    def then_killed(self: Server, *given: Any) -> None:
        serve(self, *given)
        if ("oracle" in self.log.name) == (victim == "oracle") and not killed:
            killed.append(self.pid)
            threading.Timer(1.5, os.kill, (self.pid, signal.SIGKILL)).start()

    monkeypatch.setattr(Server, "await_ready", then_killed)

    outcome = played(tmp_path, WEDGE)

    assert outcome.exit_code == 2
    (result,) = outcome.scenarios
    assert result.verdict is Verdict.VOID
    assert result.detail is not None
    assert f"the {victim} failed" in result.detail
    assert "serving tiny-opt on http://127.0.0.1" in result.detail  # the tail of its log
    assert wait_gone(killed) == []


def test_a_server_that_dies_while_the_other_side_is_still_at_it_makes_the_script_void(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = ServeSide.finish

    def then_killed(self: ServeSide) -> Play:
        done = finish(self)
        server = self._server
        if "subject" in self.name and server is not None:
            os.kill(server.pid, signal.SIGKILL)
            assert server.wait(10.0).code == -signal.SIGKILL
        return done

    monkeypatch.setattr(ServeSide, "finish", then_killed)

    outcome = played(tmp_path, LOGPROBS)

    assert outcome.counts == {"VOID": 1}
    assert "was killed by SIGKILL" in str(outcome.scenarios[0].detail)
    assert f"after it had played {LOGPROBS}" in str(outcome.scenarios[0].detail)


def test_after_a_death_the_next_script_has_a_new_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    serve = Server.await_ready

    def then_killed(self: Server, *given: Any) -> None:
        serve(self, *given)
        started.append(self.pid)
        if len(started) == 1:
            threading.Timer(1.5, os.kill, (self.pid, signal.SIGKILL)).start()

    monkeypatch.setattr(Server, "await_ready", then_killed)

    outcome = played(tmp_path, "serving/decode-wall/out-10", "serving/null-block-wedge")

    assert outcome.counts == {"VOID": 1, "COVERED": 1}
    assert len(started) == 3
    assert wait_gone(started) == []

"""What is printed around a run: whom it held against upstream, where the time went, and what to do next."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from parity.ask import Ask
from parity.cli import running
from parity.report.progress import RunProgress
from parity.runlog import Pin, Seconds
from parity.serve.side import Times
from parity.session import Run
from parity.verdicts import decide
from tests.parity.held import ENGINE, OTHER
from tests.parity.stand_in import MEASURED
from tests.records.miniature import context, finding, judged


def done(level: str = "plan", **changes: Any) -> Run:
    outcome = decide([judged("auto-fit/null-block", finding(2, "theirs"), level=level)], [], context())
    values: dict[str, Any] = {
        "pin": Pin("vllm-0.27.1", "0.27.1", "0.27.1"),
        "measured": MEASURED,
        "model_runner": "v1",
        "partial": False,
        "policies": {},
        "outcome": outcome,
        "seconds": Seconds(4.25, 3.5, 1.5),
        "wall_seconds": 60.0,
        "start_seconds": 8.64,
        "servers": {"oracle": Times(), "subject": Times()},
        "subject": ENGINE,
        "against": None,
        "logs": None,
        "path": Path("/x/run.jsonl"),
        "records": Path("/x/records"),
    }
    return Run(**(values | changes))


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (done(), "engine against vLLM 0.27.1 (pin"),
        (done(policies={"a": "b"}), "engine, a=b against vLLM"),
        (done(subject=OTHER), "other, 2.0, profile counts against vLLM 0.27.1 (pin"),
        (
            done(subject=OTHER, against=ENGINE, pin=None, measured=None),
            "other, 2.0, profile counts against engine (another subject: no record is consulted)",
        ),
    ],
)
def test_the_head_names_what_was_held_against_upstream(run: Run, said: str) -> None:
    assert running._head(run).startswith(said)


def test_the_time_of_a_run_without_servers() -> None:
    assert running._time(done()) == [
        "time: oracle 4.25 s, engine 3.50 s, both at once and judged in 60.00 s, after 8.6 s of start-up"
    ]


def test_the_time_of_a_run_with_servers_tells_starts_scripts_ends_and_the_rest() -> None:
    servers = {"oracle": Times(2, 40.25, 9.5, 1.0), "subject": Times(1, 3.0, 8.0, 0.25)}

    assert running._time(done("serve", servers=servers, start_seconds=0.0)) == [
        "time: oracle 4.25 s, engine 3.50 s, both at once; 60.00 s with the starts and ends of servers, 1.50 s of it judging and writing",
        "servers of the oracle: 2 starts in 40.2 s, scripts in 9.5 s, ends in 1.0 s",
        "servers of the subject: 1 start in 3.0 s, scripts in 8.0 s, ends in 0.2 s",
    ]


def test_a_difference_between_two_subjects_gets_no_record() -> None:
    ask = Ask(Path("/x"))

    assert running._foot(ask, done())[-1] == "next: parity record new --from 'run.jsonl#auto-fit/null-block'"
    assert running._foot(ask, done(against=OTHER))[-1] == "run file: run.jsonl"


def test_a_log_has_a_line_for_each_start_of_a_server() -> None:
    out = io.StringIO()
    progress = RunProgress(Console(file=out, width=80))

    with progress.playing(2, 0), progress.server("oracle (vllm)", "server 1 (" + "x" * 90 + ")"):
        pass

    assert out.getvalue().splitlines()[1] == f"oracle (vllm): starting server 1 ({'x' * 90}) …"


def test_the_bar_says_who_is_starting_while_it_does() -> None:
    progress = RunProgress(Console(file=io.StringIO(), force_terminal=True, width=80))

    with progress.playing(2, 0):
        assert progress._bar is not None
        task = progress._bar.tasks[0]
        with progress.server("subject (mine)", "server 1"):
            with progress.server("oracle (vllm)", "server 1"):
                assert task.description == "starting oracle (vllm) and subject (mine)"
            assert task.description == "starting subject (mine)"
        assert task.description == "scenarios"

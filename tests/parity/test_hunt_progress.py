"""What a hunt says of itself on stderr: a line for each phase, never a long silence, and nouns in their number."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from parity.fuzz.tally import tally_of
from parity.report import progress as runs
from parity.report.hunt_progress import HuntProgress
from parity.report.progress import RunProgress, counted
from tests.parity.fuzz.test_tally import done, find


def lines(out: io.StringIO) -> list[str]:
    return out.getvalue().splitlines()


def test_each_phase_is_a_line_and_so_is_the_first_unit() -> None:
    out = io.StringIO()

    with HuntProgress(Console(file=out, width=80)) as progress:
        progress.phase("starting both sides")
        progress._began -= 5.0
        progress.hunted(tally_of([done(0, find("f1:a", 0))]))
        progress.hunted(tally_of([done(0), done(1)]))
        progress.phase("shrinking what was found: 0 of 1")

    assert lines(out) == [
        "starting both sides …",
        "10 scenarios, 2 a second, 2 distinct states, 1 new fingerprint, 1 known finding",
        "shrinking what was found: 0 of 1 …",
    ]


def test_what_takes_long_is_said_again() -> None:
    out = io.StringIO()

    with HuntProgress(Console(file=out, width=80), every=0.05) as progress:
        progress.phase("starting both sides")
        progress._began -= 20.0
        deadline = time.monotonic() + 10
        while len(lines(out)) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)

    assert lines(out)[0] == "starting both sides …"
    assert lines(out)[1] == "starting both sides; 20 s so far"


def test_a_terminal_has_the_phase_in_its_bar_and_no_lines() -> None:
    out = io.StringIO()

    with HuntProgress(Console(file=out, force_terminal=True, width=100), every=0.01) as progress:
        assert progress._bar is not None
        progress.phase("starting both sides")
        time.sleep(0.05)
        assert progress._bar.tasks[0].description == "starting both sides"

    assert "so far" not in out.getvalue()


def test_an_end_that_takes_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "ENDING_SECONDS", 0.02)
    said: list[str] = []
    progress = RunProgress(say=said.append)

    with progress.ending("ending both sides"):
        time.sleep(0.5)
    with progress.ending("ending nothing"):
        pass
    time.sleep(0.1)

    assert said == ["ending both sides …"]


def test_lines_of_a_part_go_to_the_whole_even_on_a_terminal() -> None:
    said: list[str] = []
    progress = RunProgress(Console(file=io.StringIO(), force_terminal=True), say=said.append)

    with progress.starting("starting vLLM"), progress.server("oracle", "server 1"):
        progress.news("oracle: it died")

    assert said == ["starting vLLM …", "oracle: starting server 1 …", "oracle: it died"]


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (1, "scenario", "1 scenario"),
        (0, "scenario", "0 scenarios"),
        (1200, "scenario", "1,200 scenarios"),
        (1, "process", "1 process"),
        (2, "process", "2 processes"),
        (2, "branch", "2 branches"),
        (2, "key", "2 keys"),
    ],
)
def test_a_noun_is_in_its_number(number: int, noun: str, text: str) -> None:
    assert counted(number, noun) == text

"""What takes long says so on a log, though nothing comes of it meanwhile."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from parity.report import progress, shrink_progress
from parity.report.heartbeat import Heartbeat
from parity.report.hunt_progress import HuntProgress
from parity.report.progress import RunProgress
from parity.report.shrink_progress import ShrinkProgress

WAIT = 10.0  # seconds; a beat takes a hundredth of one


class Spoken(io.StringIO):
    """A log that tells when a line with these words has come."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self._words = words
        self.heard = threading.Event()

    def write(self, text: str) -> int:
        written = super().write(text)
        if self._words in self.getvalue():
            self.heard.set()
        return written


def test_it_beats_until_it_is_stopped_and_not_after() -> None:
    beats: list[int] = []
    third = threading.Event()

    def say() -> None:
        beats.append(len(beats))
        if len(beats) == 3:
            third.set()

    heartbeat = Heartbeat(say, 0.01).start()
    assert third.wait(WAIT)
    heartbeat.stop()
    count = len(beats)

    assert not threading.Event().wait(0.05)
    assert len(beats) == count


@pytest.mark.parametrize(
    ("enter", "words"),
    [
        (lambda console: RunProgress(console).starting("starting vLLM"), "after 0 s: starting vLLM"),
        (lambda console: RunProgress(console).playing(3, 0), "after 0 s: 0 of 3 played"),
        (lambda console: ShrinkProgress(600, console), "after 0 s: 0 of 600 attempts"),
        (lambda console: HuntProgress(console, every=0.01), "starting; 0 s so far"),
    ],
)
def test_a_log_hears_of_a_play_that_does_not_end(
    monkeypatch: pytest.MonkeyPatch, enter: Callable[[Console], Any], words: str
) -> None:
    for module, name in (
        (progress, "LINE_SECONDS"),
        (shrink_progress, "LINE_SECONDS"),
    ):
        monkeypatch.setattr(module, name, 0.01)
    out = Spoken(words)

    with enter(Console(file=out, width=200)):
        assert out.heard.wait(WAIT)

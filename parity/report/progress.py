"""What a person sees while a run is under way: a spinner for the oracle's start, a bar over the scenarios. Stderr only."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from parity.finding import ScenarioResult
from parity.report.heartbeat import Heartbeat

LINE_SECONDS = 10.0  # between two lines of a log

ENDING_SECONDS = 1.0  # after which an end is said to be under way

Say = Callable[[str], None]


def counted(number: int, noun: str) -> str:
    """`1 unit`, `1,200 units`, `2 processes`."""
    plural = "es" if noun.endswith(("s", "x", "ch", "sh")) else "s"
    return f"{number:,} {noun}{'' if number == 1 else plural}"


class RunProgress:
    """Progress of one run. On a stderr that is no terminal it says one line a phase, so that a log stays short.

    With `say` every line goes there, whatever stderr is: for a part of something that has a progress of its own.
    """

    def __init__(self, console: Console | None = None, say: Say | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._is_live = self._console.is_terminal and say is None
        self._say = say or self._print
        self._bar: Progress | None = None
        self._failing = 0
        self._done = 0
        self._lock = threading.Lock()  # both sides start servers at once, each in a thread of its own
        self._coming_up: list[str] = []

    @classmethod
    def silent(cls) -> Self:
        """Of a process whose parent does the talking."""
        return cls(Console(quiet=True))

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def news(self, line: str) -> None:
        """Something that was not to be expected."""
        self._say(line)

    @contextmanager
    def ending(self, what: str) -> Iterator[None]:
        """Around an end that may take seconds; only one that does is told."""
        told = threading.Timer(ENDING_SECONDS, self._say, (f"{what} …",))
        told.daemon = True
        told.start()
        try:
            yield
        finally:
            told.cancel()

    @contextmanager
    def starting(self, what: str) -> Iterator[None]:
        """Around a start that takes seconds."""
        if not self._is_live:
            self._say(f"{what} …")
            with self._beating(lambda: what):
                yield
            return
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=self._console, transient=True) as bar:
            bar.add_task(what, total=None)
            yield

    @contextmanager
    def playing(self, scenarios: int, replays: int) -> Iterator[None]:
        """Around the scenarios, and the replays of what records say of other policies; `played` moves it on."""
        total = scenarios + replays
        if not self._is_live:
            what = counted(scenarios, "scenario")
            if replays:
                what += f" and {counted(replays, 'recorded divergence')}"
            self._say(f"playing {what} on both sides …")
            self._done = 0
            with self._beating(lambda: f"{self._done} of {total} played"):
                yield
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[failing]} not passing"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._console, transient=True) as bar:
            self._bar = bar
            bar.add_task("scenarios", total=total, failing=0)
            try:
                yield
            finally:
                self._bar = None

    @contextmanager
    def _beating(self, line: Callable[[], str]) -> Iterator[None]:
        """Say it again and again, with the seconds since."""
        began = time.monotonic()

        def say() -> None:
            self._say(f"after {time.monotonic() - began:.0f} s: {line()}")

        heartbeat = Heartbeat(say, LINE_SECONDS).start()
        try:
            yield
        finally:
            heartbeat.stop()

    @contextmanager
    def server(self, who: str, what: str) -> Iterator[None]:
        """Around a server's start, while scenarios are played: a line of a log, or said at the bar while it lasts."""
        if self._bar is None:
            self._say(f"{who}: starting {what} …")
            yield
            return
        self._say_starting(who, begins=True)
        try:
            yield
        finally:
            self._say_starting(who, begins=False)

    def _say_starting(self, who: str, *, begins: bool) -> None:
        with self._lock:
            if begins:
                self._coming_up.append(who)
            else:
                self._coming_up.remove(who)
            names = " and ".join(sorted(self._coming_up))
            if self._bar is not None:
                self._bar.update(
                    self._bar.task_ids[0], description=f"starting {names}" if names else "scenarios"
                )

    def played(self, result: ScenarioResult | None = None) -> None:
        """One more scenario is done."""
        self._done += 1
        self._failing += result is not None and not result.verdict.passes
        if self._bar is not None:
            task = self._bar.task_ids[0]
            self._bar.update(task, advance=1, failing=self._failing)

"""What a person sees while a hunt is under way, on stderr: one line that says how it goes."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from parity.fuzz.tally import Tally
from parity.report.heartbeat import Heartbeat
from parity.report.hunt import counted_finds
from parity.report.progress import counted

LOG_SECONDS = 10.0  # between two lines where stderr is no terminal


class HuntProgress:
    """A live line on a terminal; elsewhere a line for each phase, and one now and then, so that a log is short and never silent."""

    def __init__(self, console: Console | None = None, every: float = LOG_SECONDS) -> None:
        self._console = console or Console(stderr=True)
        self._every = every
        self._bar: Progress | None = None
        self._heartbeat = Heartbeat(self._say_again, every)
        self._line = "starting"
        self._began = self._said = time.monotonic()

    def __enter__(self) -> HuntProgress:
        self._began = self._said = time.monotonic()
        if self._console.is_terminal:
            columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._bar.add_task("", total=None)
            self._bar.start()
        else:
            self._heartbeat.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, error, trace
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        else:
            self._heartbeat.stop()

    def phase(self, what: str) -> None:
        """Something else begins that takes seconds."""
        self.show(what)
        if self._bar is None:
            self.say(f"{what} …")

    def hunted(self, tally: Tally) -> None:
        """One more unit is done."""
        rate = tally.scenarios / max(time.monotonic() - self._began, 1e-9)
        self.show(
            f"{counted(tally.scenarios, 'scenario')}, {rate:.0f} a second,"
            f" {counted(len(tally.states), 'distinct state')}, {counted_finds(tally.finds())},"
            f" {counted(sum(tally.known.values()), 'known finding')}"
        )
        if self._bar is None and len(tally.units) == 1:
            self.say(self._line)

    def say(self, line: str) -> None:
        """A line that stays."""
        self._said = time.monotonic()
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def show(self, line: str) -> None:
        """What is under way, where it is not worth a line of a log."""
        self._line = line
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], description=line)

    def _say_again(self) -> None:
        """What is under way, where nothing else was said for long."""
        now = time.monotonic()
        if now - self._said >= self._every:
            self.say(f"{self._line}; {now - self._began:.0f} s so far")

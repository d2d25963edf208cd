"""What a person sees while a hunt is under way, on stderr: one line that says how it goes."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from parity.fuzz.tally import Tally
from parity.report.heartbeat import Heartbeat
from parity.report.hunt import counted_finds

LOG_SECONDS = 10.0  # between two lines where stderr is no terminal


class HuntProgress:
    """A live line on a terminal; elsewhere a line now and then, so that a log stays short."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._bar: Progress | None = None
        self._heartbeat = Heartbeat(self._say_again, LOG_SECONDS)
        self._line = "the first unit is under way …"
        self._began = time.monotonic()

    def __enter__(self) -> HuntProgress:
        self._began = time.monotonic()
        if self._console.is_terminal:
            columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._bar.start()
            self._bar.add_task("starting both sides", total=None)
        else:
            self.say("hunting: starting both sides …")
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

    def hunted(self, tally: Tally) -> None:
        """One more unit is done."""
        rate = tally.scenarios / max(time.monotonic() - self._began, 1e-9)
        self._line = (
            f"{tally.scenarios:,} scenarios, {rate:.0f} a second, {len(tally.states):,} distinct states,"
            f" {counted_finds(tally.finds())}, {sum(tally.known.values()):,} known findings"
        )
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], description=self._line)

    def shrinking(self, done: int, of: int) -> None:
        """`done` of the finds have been shrunk."""
        self._line = f"shrinking what was found: {done} of {of} …"
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], description=self._line)
        else:
            self.say(self._line)

    def _say_again(self) -> None:
        self.say(f"after {time.monotonic() - self._began:.0f} s: {self._line}")

    def say(self, line: str) -> None:
        """A line that stays."""
        self._console.print(line, highlight=False, soft_wrap=True)

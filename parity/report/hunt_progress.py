"""What a person sees while a hunt is under way, on stderr: one line that says how it goes."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from parity.fuzz.tally import Tally
from parity.report.progress import counted

LOG_SECONDS = 10.0  # between two lines where stderr is no terminal


class HuntProgress:
    """A live line on a terminal; elsewhere a line now and then, so that a log stays short."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._bar: Progress | None = None
        self._began = time.monotonic()
        self._said = self._began

    def __enter__(self) -> HuntProgress:
        self._began = self._said = time.monotonic()
        if self._console.is_terminal:
            columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._bar.start()
            self._bar.add_task("starting both sides", total=None)
        else:
            self.say("hunting: starting both sides …")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, error, trace
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def hunted(self, tally: Tally) -> None:
        """One more unit is done."""
        now = time.monotonic()
        rate = tally.scenarios / max(now - self._began, 1e-9)
        line = (
            f"{tally.scenarios:,} scenarios, {rate:.0f} a second, {len(tally.states):,} distinct states,"
            f" {counted(len(tally.finds()), 'new fingerprint')}, {sum(tally.known.values()):,} known findings"
        )
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], description=line)
        elif now - self._said >= LOG_SECONDS:
            self._said = now
            self.say(line)

    def shrinking(self, done: int, of: int) -> None:
        """`done` of the finds have been shrunk."""
        line = f"shrinking what was found: {done} of {of}"
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], description=line)
        else:
            self.say(f"{line} …")

    def say(self, line: str) -> None:
        """A line that stays."""
        self._console.print(line, highlight=False, soft_wrap=True)

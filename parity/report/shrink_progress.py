"""What a person sees while a finding is shrunk: how often it was tried, and how small it is by now. Stderr only."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from parity.fuzz.document import Document
from parity.fuzz.size import size
from parity.report.heartbeat import Heartbeat
from parity.report.progress import counted

LINE_SECONDS = 5.0  # between two lines of a log


class ShrinkProgress:
    """A bar over the attempts; on a stderr that is no terminal a line every few seconds."""

    def __init__(self, attempts: int, console: Console | None = None) -> None:
        self._attempts = attempts
        self._console = console or Console(stderr=True)
        self._bar: Progress | None = None
        self._heartbeat = Heartbeat(self._say, LINE_SECONDS)
        self._began = time.monotonic()
        self._tried = 0
        self._best: Document | None = None

    def tried(self, best: Document, attempts: int) -> None:
        """One more attempt was made; `best` is the smallest document so far."""
        self._tried, self._best = attempts, best
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=attempts, best=counts(best))

    def _say(self) -> None:
        best = "" if self._best is None else f": {counts(self._best)}"
        seconds = time.monotonic() - self._began
        line = f"after {seconds:.0f} s: {self._tried} of {counted(self._attempts, 'attempt')}{best}"
        self._console.print(line, highlight=False, soft_wrap=True)

    def __enter__(self) -> ShrinkProgress:
        if self._console.is_terminal:
            columns = (
                TextColumn("shrinking"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[best]}"),
                TimeElapsedColumn(),
            )
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._bar.add_task("shrinking", total=self._attempts, best="")
            self._bar.start()
        else:
            self._began = time.monotonic()
            self._heartbeat.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, error, trace
        if self._bar is not None:
            self._bar.stop()
        else:
            self._heartbeat.stop()


def counts(document: Document) -> str:
    """A document's size in words."""
    first, events, _, keys = size(document)[:4]
    if document["level"] == "plan":
        return counted(keys, "key")
    if document["level"] == "serve":
        return f"{counted(events, 'action')}, {counted(first, 'exchange')}, {counted(keys, 'key')}"
    return f"{counted(first, 'request')}, {counted(keys, 'key')}"

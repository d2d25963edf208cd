"""The search for a smaller document: what was asked already, what is left to ask, and the smallest that was kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from parity.document import Fault
from parity.fuzz.document import Document, case_from
from parity.fuzz.size import as_key, size

Keeps = Callable[[Document], bool]
Progress = Callable[[Document, int], None]
Stopped = Literal["attempts", "time", "interrupted"]


class Over(Exception):
    """The budget is used up. `Search.best` holds what was reached."""

    def __init__(self, stopped: Stopped) -> None:
        super().__init__(stopped)
        self.stopped: Stopped = stopped


class Search:
    """`best` only ever gets smaller; each distinct document that can be played is asked about at most once.

    `progress` is told the smallest document and the number of attempts after each.
    """

    def __init__(
        self,
        document: Document,
        keeps: Keeps,
        attempts: int,
        seconds: float | None,
        progress: Progress | None,
    ) -> None:
        self.best = document
        self.attempts = 0
        self._keeps = keeps
        self._most = attempts
        self._until = None if seconds is None else time.monotonic() + seconds
        self._progress = progress
        self._known: dict[str, bool] = {as_key(document): True}

    def attempt(self, candidate: Document) -> bool:
        """Whether the candidate is smaller than the best and keeps what must be kept; then it is the best. Raises Over."""
        return size(candidate) < size(self.best) and self.accept(candidate)

    def accept(self, candidate: Document) -> bool:
        """The same for a candidate that need not be smaller. Raises Over."""
        if not self._holds(candidate):
            return False
        self.best = candidate
        return True

    def _holds(self, candidate: Document) -> bool:
        key = as_key(candidate)
        if key in self._known:
            return self._known[key]
        try:
            case_from(candidate)
        except Fault:
            self._known[key] = False
            return False
        if self.attempts >= self._most:
            raise Over("attempts")
        if self._until is not None and time.monotonic() >= self._until:
            raise Over("time")
        self.attempts += 1
        self._known[key] = holds = self._keeps(candidate)
        if self._progress is not None:
            self._progress(candidate if holds else self.best, self.attempts)
        return holds

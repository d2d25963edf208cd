"""Decides by state, never by a clock, whether a timeline goes round in circles (docs/protocol.md)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal

from engine.full_state import full_state
from engine.scheduler import Scheduler

Verdict = tuple[Literal["stall", "livelock"], int | None]


class Watch:
    """Remembers the full states since the last token or event; asked only when nothing is pending."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, tuple[int, int]] = {}  # state -> (step, busy steps until then)
        self._busy_steps = 0
        self._idle: Hashable = None  # the state after the step before, if that scheduled nothing

    def forget(self) -> None:
        """A token was emitted: no state from before can come back."""
        self._seen.clear()
        self._idle = None

    def judge(self, at: int, scheduler: Scheduler, scheduled: bool) -> Verdict | None:
        """The ending that the state after step `at` shows, with a livelock's period in steps.

        To be called for every step that emitted no token; `scheduled` says whether it scheduled anything.
        """
        state = full_state(scheduler)
        if not scheduled and state == self._idle:
            return "stall", None
        self._idle = None if scheduled else state
        self._busy_steps += scheduled
        before = self._seen.get(state)
        if before is not None and before[1] < self._busy_steps:
            return "livelock", at - before[0]
        self._seen[state] = (at, self._busy_steps)
        return None

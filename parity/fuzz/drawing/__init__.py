"""Scenarios that nobody wrote: documents (`parity.fuzz.document`) made of choices."""

from __future__ import annotations

from parity.fuzz.document import Document
from parity.fuzz.drawing.hand import Hand, Source
from parity.fuzz.drawing.plans import draw_plan
from parity.fuzz.drawing.schedules import draw_schedule
from parity.scenario import Level

__all__ = ["Source", "draw_document"]


def draw_document(level: Level, source: Source) -> Document:
    """A document of level plan or schedule that `case_from` takes. Raises ValueError for level serve."""
    if level == "plan":
        return draw_plan(Hand(source))
    if level == "schedule":
        return draw_schedule(Hand(source))
    raise ValueError(f"no documents of level {level} are drawn here")

"""Scenarios that nobody wrote: documents (`parity.fuzz.document`) made of choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from parity.fuzz.document import Document
from parity.fuzz.drawing.hand import Hand, Source
from parity.fuzz.drawing.plans import draw_plan
from parity.fuzz.drawing.schedules import draw_schedule
from parity.fuzz.drawing.serve import SERVERS, draw_serve
from parity.scenario import Level

__all__ = ["SERVERS", "Source", "draw_document"]


def draw_document(level: Level, source: Source, servers: Sequence[dict[str, Any]] = SERVERS) -> Document:
    """A document that `case_from` takes; of level serve for one of these configurations."""
    if level == "plan":
        return draw_plan(Hand(source))
    if level == "schedule":
        return draw_schedule(Hand(source))
    return draw_serve(Hand(source), servers)

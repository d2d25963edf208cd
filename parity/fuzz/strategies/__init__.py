"""Scenarios that nobody wrote, as hypothesis strategies over documents (`parity.fuzz.document`)."""

from __future__ import annotations

from hypothesis.strategies import SearchStrategy

from parity.fuzz.document import Document
from parity.fuzz.strategies.plans import plan_documents
from parity.fuzz.strategies.schedules import schedule_documents
from parity.scenario import Level

__all__ = ["documents"]


def documents(level: Level) -> SearchStrategy[Document]:
    """Documents of level plan or schedule, each of which `case_from` takes. Raises ValueError for level serve."""
    if level == "plan":
        return plan_documents()
    if level == "schedule":
        return schedule_documents()
    raise ValueError(f"no documents of level {level} are drawn here")

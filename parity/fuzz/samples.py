"""The plainest documents of a level: what both sides are got ready with before a hunt draws any."""

from __future__ import annotations

from parity.errors import UsageError
from parity.fuzz.document import Document
from parity.scenario import Level

PLAN: Document = {"level": "plan", "config": {"model": "opt-125m", "num_blocks": 8}}
SCHEDULE: Document = {
    **PLAN,
    "level": "schedule",
    "requests": [{"id": "r0", "prompt": 8, "max_tokens": 1}],
}


def samples(level: Level) -> list[Document]:
    """One document for each configuration that has to be started before a script can be played."""
    if level == "serve":
        raise UsageError("scripts are not drawn yet", hint="hunt at level plan or schedule")
    return [PLAN] if level == "plan" else [SCHEDULE]

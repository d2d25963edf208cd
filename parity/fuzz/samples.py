"""The plainest documents of a level: what both sides are got ready with before a hunt draws any."""

from __future__ import annotations

from parity.fuzz.document import Document
from parity.fuzz.drawing import SERVERS
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
        script = [{"send": {"id": "a", "path": "/health"}}]
        return [{"level": level, "config": server, "script": script} for server in SERVERS]
    return [PLAN] if level == "plan" else [SCHEDULE]

"""Decides how a timeline ends, by state and never by a clock.

Pure: it sees one full state a step and remembers those since the last token, arrival, abort or reset.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Literal

Verdict = tuple[Literal["stall", "livelock"], int | None]


def renamed_blocks(
    tables: Iterable[Sequence[int]], free: Iterable[int], hashes: Sequence[Hashable]
) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...], tuple[Hashable, ...]]:
    """Block tables, free queue and hashes with blocks renamed by first appearance in that walk.

    `hashes` is indexed by block id. Two states that differ by a renaming of blocks come out equal.
    """
    names: dict[int, int] = {}

    def name(block: int) -> int:
        return names.setdefault(block, len(names))

    new_tables = tuple(tuple(name(block) for block in table) for table in tables)
    new_free = tuple(name(block) for block in free)
    for block in range(len(hashes)):
        name(block)
    return new_tables, new_free, tuple(hashes[block] for block in names)


class StateHistory:
    """The full states since the last event, each with its step and the number of steps that scheduled."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, tuple[int, int]] = {}
        self._busy_steps = 0
        self._idle: Hashable = None

    def forget(self) -> None:
        """A token was emitted, or a request arrived, was aborted or reset: nothing before it can recur."""
        self._seen.clear()
        self._idle = None

    def judge(self, step: int, scheduled: bool, state: Hashable) -> Verdict | None:
        """What `state`, the full state at the end of `step`, says of the timeline; None while it may go on.

        To be called for each step that emitted no token, while no event is pending.
        """
        if not scheduled and self._idle == state:
            return "stall", None
        self._idle = None if scheduled else state
        self._busy_steps += scheduled
        earlier = self._seen.get(state)
        if earlier is not None and earlier[1] < self._busy_steps:
            return "livelock", step - earlier[0]
        self._seen[state] = (step, self._busy_steps)
        return None

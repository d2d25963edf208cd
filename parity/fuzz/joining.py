"""Hunts of one seed as parts of one hunt: which shards are there, how far each went, and what nobody did."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from parity.fuzz.log import Log

Shard = tuple[int, int]


class Part(msgspec.Struct, frozen=True):
    """All that was done of one shard, by however many hunts: the indexes of its units, sorted."""

    shard: Shard
    units: tuple[int, ...]


class Joined(msgspec.Struct, frozen=True):
    """The parts in order, the shards that no hunt is of, and the units of the others below `last` that were not done.

    Hunts that were cut in different numbers of shards have no shard missing: there every unit is looked for.
    `last` is the highest unit that was done, null where none was.
    """

    parts: tuple[Part, ...]
    last: int | None
    missing_shards: tuple[Shard, ...]
    missing_units: tuple[int, ...]


def join(logs: Sequence[Log]) -> Joined:
    """What these hunts come to together; `parity.fuzz.log.check_parts` says whether they may be joined."""
    units: dict[Shard, set[int]] = {}
    for log in logs:
        units.setdefault(log.header.shard, set()).update(done.unit.index for done in log.units)
    done = set().union(*units.values())
    last = max(done, default=None)
    counts = {count for _, count in units}
    missing_shards: tuple[Shard, ...] = ()
    if len(counts) == 1:
        every = [(number, count) for count in counts for number in range(1, count + 1)]
        missing_shards = tuple(shard for shard in every if shard not in units)
    absent = {(number - 1, count) for number, count in missing_shards}
    wanted = range(0 if last is None else last)
    return Joined(
        parts=tuple(Part(shard, tuple(sorted(units[shard]))) for shard in sorted(units)),
        last=last,
        missing_shards=missing_shards,
        missing_units=tuple(
            index
            for index in wanted
            if index not in done and not any(index % count == rest for rest, count in absent)
        ),
    )

"""Joined hunts as people and scripts read them: which parts there are and which are missing, and then what they showed."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from parity.fuzz.joining import Joined, Part
from parity.report.hunt import Hunted, cut, hunt_object, shown_lines, title
from parity.report.progress import counted


def joined_text(hunted: Hunted, joined: Joined) -> Text:
    """The whole report."""
    head = [title(hunted.header), _parts(joined), *_missing(joined), _done(hunted)]
    return Text("\n".join([*head, *shown_lines(hunted)]))


def joined_object(hunted: Hunted, joined: Joined) -> dict[str, Any]:
    """The object of a hunt, and its parts. How long the hunts took in all, and by how many jobs, no log says."""
    shown = hunt_object(hunted)
    shown["seconds"] |= {"wall": None, "jobs": None}
    shown["joined"] = [
        {"shard": list(part.shard), "units": len(part.units), "last": part.units[-1] if part.units else None}
        for part in joined.parts
    ]
    shown["missing"] = {
        "shards": [list(shard) for shard in joined.missing_shards],
        "units": list(joined.missing_units),
    }
    return shown


def _parts(joined: Joined) -> str:
    return "joined: " + ", ".join(map(_part, joined.parts))


def _part(part: Part) -> str:
    number, count = part.shard
    name = "the whole hunt" if count == 1 else f"shard {number}/{count}"
    if not part.units:
        return f"{name} (no unit)"
    return f"{name} ({counted(len(part.units), 'unit')}, the last {part.units[-1]})"


def _missing(joined: Joined) -> list[str]:
    lines = []
    if joined.missing_shards:
        shards = [f"{number}/{count}" for number, count in joined.missing_shards]
        lines.append(f"missing: {_named('shard', shards)}")
    if joined.missing_units:
        units = [str(index) for index in joined.missing_units]
        lines.append(f"missing below unit {joined.last}: {_named('unit', units)}")
    return lines


def _named(noun: str, names: list[str]) -> str:
    return f"{noun}{'' if len(names) == 1 else 's'} {cut(names)}"


def _done(hunted: Hunted) -> str:
    tally = hunted.tally
    steps = "" if tally.median_steps is None else f", median {tally.median_steps:g} steps"
    rate = tally.scenarios / tally.spent.whole if tally.spent.whole else 0.0
    return (
        f"{tally.scenarios:,} scenarios in {counted(len(tally.units), 'unit')}, {tally.spent.whole:.1f} s of work"
        f" ({rate:.0f} a second and job{steps}), {len(tally.states):,} distinct states"
    )

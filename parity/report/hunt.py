"""A hunt as people and scripts read it: what was played, what is known, what was reached, what is new."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.text import Text

from parity.finding import Verdict
from parity.fuzz import behaviours
from parity.fuzz.log import Header, file_of
from parity.fuzz.showing import why_kept_whole
from parity.fuzz.tally import Tally
from parity.fuzz.unit import Find, Reduced, verdict_of
from parity.report.progress import counted

SHOWN = 12  # names in a list before it is cut


class Kept(msgspec.Struct, frozen=True):
    """A find after it was shrunk, and the file that it is kept in."""

    reduced: Reduced
    file: Path


class Hunted(msgspec.Struct, frozen=True):
    """A hunt that ended. `left` are the finds that were not shrunk; `wall` are seconds, the sides' start included.

    `folder` is null for hunts that were joined. Of parts that were read back `shards` are there, `jobs` is null,
    `wall` the time of all jobs together, and `logs` says which file has a find, by its fingerprint.
    """

    header: Header
    tally: Tally
    kept: tuple[Kept, ...]
    left: int
    wall: float
    jobs: int | None
    folder: Path | None
    interrupted: bool = False
    shards: tuple[tuple[int, int], ...] = ()
    logs: Mapping[str, Path] = {}

    @property
    def missing_shards(self) -> list[str]:
        """The shards of the hunt that none of the parts is; none where the parts were not cut alike."""
        counts = {of for _, of in self.shards}
        of = counts.pop() if len(counts) == 1 else 0
        return [f"{place}/{of}" for place in range(1, of + 1) if (place, of) not in self.shards]

    @property
    def missing_units(self) -> list[int]:
        """The units below the last one that no part has done."""
        return sorted(set(range(max(self.tally.units, default=-1) + 1)) - self.tally.units)

    @property
    def found(self) -> bool:
        """Whether there is anything new that both sides played to the end."""
        return any(find.attribution is not None for find in self.tally.finds())

    @property
    def failed(self) -> bool:
        """Whether a side failed, or disagreed with itself, in a scenario."""
        return any(find.attribution is None for find in self.tally.finds())


def hunt_text(hunted: Hunted) -> Text:
    """The whole report."""
    tally, header = hunted.tally, hunted.header
    lines = [
        _title(hunted),
        _played(hunted),
        *_gaps(hunted),
        *_unplayed(tally),
        *_reached(tally, header),
        *_known(tally),
    ]
    lines += _time(tally)
    for kept in _worst_first(hunted.kept):
        lines += ["", *_find(kept)]
    lines += [*_left(hunted), "", _ending(hunted)]
    if hunted.folder is not None:
        lines.append(f"log: {hunted.folder}")
    return Text("\n".join(lines))


def hunt_object(hunted: Hunted) -> dict[str, Any]:
    """The same for scripts, as plain JSON."""
    tally, header = hunted.tally, hunted.header
    return {
        "pin": msgspec.to_builtins(header.pin),
        "level": header.level,
        "seed": header.seed,
        "shard": list(header.shard) if len(hunted.shards) < 2 else [1, 1],
        "policies": header.policies,
        "units": len(tally.units),
        "scenarios": tally.scenarios,
        "unplayed": tally.unplayed,
        "plays": tally.plays,
        "median_steps": tally.median_steps,
        "states": len(tally.states),
        "seconds": {"wall": hunted.wall, "jobs": hunted.jobs, **msgspec.to_builtins(tally.spent)},
        "behaviours": dict(sorted(tally.behaviours.items())),
        "never": never(tally, header),
        "pairs": len(tally.pairs),
        "known": {
            record: {"findings": count, "behind": tally.behind[record]}
            for record, count in sorted(tally.known.items())
        },
        "finds": [_find_object(kept) for kept in _worst_first(hunted.kept)],
        "not_shrunk": hunted.left,
        "interrupted": hunted.interrupted,
        "missing_shards": hunted.missing_shards,
        "missing_units": hunted.missing_units if hunted.shards else [],
        "log": None if hunted.folder is None else str(hunted.folder),
    }


def never(tally: Tally, header: Header) -> list[str]:
    """The behaviours of the level that no scenario reached, in the vocabulary's order."""
    return [name for name in behaviours.VOCABULARY[header.level] if name not in tally.behaviours]


def counted_finds(finds: Iterable[Find]) -> str:
    """How many are VOID and FLAKY, and how many have a fingerprint: `1 VOID, 2 new fingerprints`."""
    counts = Counter(verdict_of(find) for find in finds)
    parts = [f"{counts[verdict]} {verdict}" for verdict in (Verdict.VOID, Verdict.FLAKY) if counts[verdict]]
    if counts[Verdict.NEW] or not parts:
        parts.append(counted(counts[Verdict.NEW], "new fingerprint"))
    return ", ".join(parts)


def harness_share(tally: Tally) -> float:
    """The harness's own part of the time that was not spent on making scenarios."""
    whole = tally.spent.playing + tally.spent.judging
    return tally.spent.judging / whole if whole else 0.0


def _gaps(hunted: Hunted) -> list[str]:
    """What is missing of hunts that were joined."""
    if not hunted.shards:
        return []
    shards, units = hunted.missing_shards, hunted.missing_units
    lines = [f"missing: {'shard' if len(shards) == 1 else 'shards'} {', '.join(shards)}"] if shards else []
    if units:
        told = _cut([str(index) for index in units])
        lines.append(f"{counted(len(units), 'unit')} below the last in none of the parts: {told}")
    return lines


def _title(hunted: Hunted) -> str:
    header = hunted.header
    policies = "".join(f", {name}={value}" for name, value in header.policies.items())
    shards = [f"{place}/{of}" for place, of in hunted.shards or (header.shard,) if of > 1]
    shard = f", {'shard' if len(shards) == 1 else 'shards'} {' and '.join(shards)}" if shards else ""
    return (
        f"hunt at level {header.level}, engine{policies} against vLLM {header.pin.measured}"
        f" (pin {header.pin.name}), seed {header.seed}{shard}"
    )


def _played(hunted: Hunted) -> str:
    tally = hunted.tally
    median = tally.median_steps
    steps = "" if median is None else f", median {median:g} step{'' if median == 1 else 's'}"
    rate = tally.scenarios / hunted.wall if hunted.wall else 0.0
    if hunted.jobs is None:
        how, speed = "of all jobs together", f"{rate:.0f} a second and job"
    else:
        how, speed = f"by {counted(hunted.jobs, 'job')}", f"{rate:.0f} a second with the start-up"
    return (
        f"{counted(tally.scenarios, 'scenario')} in {hunted.wall:.1f} s {how}"
        f" ({speed}{steps}), {counted(len(tally.states), 'distinct state')}"
    )


def _unplayed(tally: Tally) -> list[str]:
    if not tally.unplayed:
        return []
    return [f"{tally.unplayed:,} more were not played: a side failed too often in their unit"]


def _reached(tally: Tally, header: Header) -> list[str]:
    names = behaviours.VOCABULARY[header.level]
    reached = [name for name in names if name in tally.behaviours]
    rare = sorted(reached, key=lambda name: (tally.behaviours[name], name))[:3]
    lines = [
        f"behaviours: {len(reached)} of {len(names)} reached, {counted(len(tally.pairs), 'pair')} of them"
    ]
    if rare:
        lines[0] += "; rarest: " + ", ".join(f"{name} ({tally.behaviours[name]})" for name in rare)
    missing = never(tally, header)
    if missing:
        lines.append(f"never reached: {_cut(missing)}")
    return lines


def _known(tally: Tally) -> list[str]:
    lines = []
    for record, count in sorted(tally.known.items()):
        behind = f", looked behind {counted(tally.behind[record], 'time')}" if tally.behind[record] else ""
        lines.append(f"known: {record}: {counted(count, 'finding')}{behind}")
    return lines


def _time(tally: Tally) -> list[str]:
    spent = tally.spent
    return [
        f"time of all jobs: making scenarios {spent.making:.1f} s; playing {spent.playing:.1f} s"
        f" (oracle {spent.oracle:.1f}, engine {spent.subject:.1f}); harness {spent.judging:.1f} s,"
        f" {harness_share(tally):.0%} of what is not making"
    ]


def _worst_first(kept: Sequence[Kept]) -> list[Kept]:
    return sorted(kept, key=lambda one: verdict_of(one.reduced.find).severity)


def _find(kept: Kept) -> list[str]:
    find = kept.reduced.find
    whose = "" if find.attribution is None else f" {find.attribution}"
    lines = [f"{verdict_of(find)}{whose} {find.fingerprint} in unit {find.unit}: {find.shape}"]
    if find.attribution is not None:
        lines.append(f"    at {find.at}: oracle {_short(find.oracle)}, subject {_short(find.subject)}")
    lines.append(f"    {_size(find.document)}, {_shrunk(kept.reduced)}: {kept.file}")
    return lines


def _left(hunted: Hunted) -> list[str]:
    """What only a log has, and how one of it is taken from there."""
    told = {kept.reduced.find.fingerprint for kept in hunted.kept}
    left = [find for find in hunted.tally.finds() if find.fingerprint not in told]
    if not left:
        return []
    lines = ["", f"in the log, and not shrunk: {counted_finds(left)} more"]
    first = next((find for find in left if why_kept_whole(find.fingerprint, find.document) is None), None)
    if first is not None:
        own = None if hunted.folder is None else file_of(hunted.folder)
        lines.append(f"    parity shrink {hunted.logs.get(first.fingerprint, own)}#{first.fingerprint}")
    return lines


def _shrunk(reduced: Reduced) -> str:
    """How small the scenario is made, or why it is as it was drawn."""
    tried = f"shrunk in {counted(reduced.attempts, 'attempt')}"
    match reduced.stopped:
        case None:
            return tried
        case "attempts" | "time":
            return f"{tried}, when the {reduced.stopped} ran out"
        case why:
            return f"not shrunk ({why})"


def _find_object(kept: Kept) -> dict[str, Any]:
    find = kept.reduced.find
    return {
        "verdict": verdict_of(find),
        "fingerprint": find.fingerprint,
        "shape": find.shape,
        "attribution": find.attribution,
        "property": find.property,
        "at": find.at,
        "oracle": find.oracle,
        "subject": find.subject,
        "unit": find.unit,
        "requests": len(find.document.get("requests", ())),
        "attempts": kept.reduced.attempts,
        "stopped": kept.reduced.stopped,
        "file": str(kept.file),
        "scenario": find.document,
    }


def _ending(hunted: Hunted) -> str:
    finds = hunted.tally.finds()
    if not finds:
        return "nothing new" if hunted.tally.scenarios else "nothing was played"
    said = counted_finds(finds)
    if not hunted.kept:
        return said
    first = _worst_first(hunted.kept)[0]
    promote = f", or parity promote {first.file}" if verdict_of(first.reduced.find) is Verdict.NEW else ""
    return f"{said}. next: parity replay {first.file}{promote}"


def _size(document: Mapping[str, Any]) -> str:
    if "script" in document:
        return counted(len(document["script"]), "action")
    return counted(len(document.get("requests", ())), "request") if "requests" in document else "a plan"


def _short(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else text[:77] + "..."


def _cut(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more

"""How a run over mutants reads: shares, survivors with their changes, entries that are stale."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from parity.detection.equivalent import Entry
from parity.detection.mutation import Mutant, diff_of
from parity.detection.result import AIMS, REACH, Result, noticed_equivalents, shares, survivors


class Report(msgspec.Struct, frozen=True):
    """A run: what was planted, what became of it, and the entries of which no mutant is left."""

    results: list[Result]
    gone: list[Entry]
    seed: int
    possible: int  # mutants there are in the files that were asked for
    seconds: float
    interrupted: bool = False

    @property
    def passes(self) -> bool:
        """Whether every share is as it should be, and every entry is of a mutant that nobody notices."""
        stale = self.gone or noticed_equivalents(self.results)
        return not stale and all(share.reached for share in shares(self.results))


def lines(report: Report, root: Path, mutants: Sequence[Mutant]) -> list[str]:
    """The report for a person."""
    by_id = {mutant.id: mutant for mutant in mutants}
    equal = sum(result.equivalent is not None for result in report.results)
    out = [
        f"{len(report.results)} mutants of {report.possible} (seed {report.seed}), {equal} of them on file as"
        f" equivalent, in {report.seconds / 60:.1f} min"
    ]
    out += ["", "group    noticed by   mutants   share"]
    for share in shares(report.results):
        aim = f"   ({REACH:.0%} wanted{'' if share.reached else ', MISSED'})" if share.aimed else ""
        out.append(f"{share.group:8} {share.by:9} {share.killed:4} of {share.of:4}   {share.rate:6.1%}{aim}")
    for result in survivors(report.results):
        out += ["", f"SURVIVES {AIMS[result.group]}: {result.id} (line {result.line})"]
        out += [f"  {line}" for line in diff_of(root, by_id[result.id]).splitlines()[2:]]
    for result in noticed_equivalents(report.results):
        kill = result.kill(AIMS[result.group])
        out += [
            "",
            f"STALE: {result.id} is on file as equivalent, and was noticed: {kill.by if kill else ''}",
        ]
    for entry in report.gone:
        out += ["", f"STALE: there is no mutant {entry.mutant} that makes {entry.was!r} to {entry.becomes!r}"]
    if report.interrupted:
        out += ["", "interrupted: the shares are of what was planted until then"]
    return out


def as_json(report: Report) -> str:
    """The report for a script."""
    value: dict[str, Any] = {
        "seed": report.seed,
        "planted": len(report.results),
        "possible": report.possible,
        "operators": dict(Counter(result.id.rpartition(":")[2] for result in report.results)),
        "equivalent": sum(result.equivalent is not None for result in report.results),
        "shares": [
            {**msgspec.to_builtins(share), "rate": share.rate, "reached": share.reached}
            for share in shares(report.results)
        ],
        "survivors": [result.id for result in survivors(report.results)],
        "stale": [result.id for result in noticed_equivalents(report.results)]
        + [entry.mutant for entry in report.gone],
        "seconds": round(report.seconds, 1),
        "interrupted": report.interrupted,
        "mutants": msgspec.to_builtins(report.results),
    }
    return msgspec.json.encode(value).decode()

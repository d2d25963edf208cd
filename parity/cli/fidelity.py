"""`parity fidelity`: whether the oracle's driver shows of upstream what upstream's own engine core does."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from parity.cli.options import Commands, add_json, add_pin, verb

if TYPE_CHECKING:
    from parity.fidelity import Compared


def register(commands: Commands) -> None:
    parser = verb(
        commands,
        "fidelity",
        "Play scenarios through upstream's scheduler and through its own engine core, and compare the two",
        "parity fidelity --family preemption",
        execute,
    )
    parser.add_argument(
        "scenario",
        nargs="*",
        help="a scenario's id, or a sweep's or family's prefix (default: all of the levels plan and schedule)",
    )
    parser.add_argument("--family", default=None, help="only scenarios of this family, such as preemption")
    add_pin(parser)
    add_json(parser)


def execute(args: argparse.Namespace) -> int:
    from parity.errors import ExitCode
    from parity.fidelity import choose, compare_all
    from parity.oracle_side import find_pin, measure_oracle
    from parity.report.progress import RunProgress
    from parity.root import project_root
    from parity.suite import load_suite

    root = project_root()
    pin = find_pin(root, args.pin)
    cases = choose(load_suite(root), args.scenario, args.family)
    measured = measure_oracle(root, pin)
    compared = compare_all(root, pin, measured, cases, RunProgress())
    if args.json:
        json.dump(_object(compared), sys.stdout)
        print()
    else:
        print("\n".join(_lines(compared, measured.version)))
    if any(one.difference is not None for one in compared):
        return ExitCode.FINDINGS
    return ExitCode.OK if all(one.same for one in compared) else ExitCode.INCONCLUSIVE


def _object(compared: Sequence[Compared]) -> dict[str, object]:
    return {
        "scenarios": len(compared),
        "levels": dict(Counter(one.level for one in compared)),
        "same": sum(one.same for one in compared),
        "differ": [
            {"id": one.id, "at": found.path, "scheduler": found.oracle, "core": found.subject}
            for one in compared
            if (found := one.difference) is not None
        ],
        "failed": [{"id": one.id, "failure": one.failure} for one in compared if one.failure],
    }


def _lines(compared: Sequence[Compared], version: str) -> list[str]:
    levels = ", ".join(
        f"{count} of level {level}" for level, count in Counter(one.level for one in compared).items()
    )
    lines = []
    for one in compared:
        if one.failure is not None:
            lines.append(f"{one.id}: not played: {one.failure}")
        elif (found := one.difference) is not None:
            values = f"scheduler {json.dumps(found.oracle)}, engine core {json.dumps(found.subject)}"
            lines.append(f"{one.id}: {found.path}: {values}")
    counts = Counter(
        "not played" if one.failure else "the same" if one.same else "different" for one in compared
    )
    said = ", ".join(f"{count} {what}" for what, count in counts.items())
    return [*lines, f"through the scheduler and through the engine core of vLLM {version}: {said} ({levels})"]

"""`parity coverage`: what of upstream's core the committed scenarios execute, and whether the rest is decided."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from parity.cli.options import Commands, add_json, add_pin, verb

if TYPE_CHECKING:
    from parity.reach.decisions import Decisions, Judged
    from parity.reach.survey import File


def register(commands: Commands) -> None:
    parser = verb(
        commands,
        "coverage",
        "Measure which lines and branches of upstream's core the plan and schedule scenarios execute",
        "parity coverage --missing",
        execute,
    )
    parser.add_argument(
        "scenario",
        nargs="*",
        help="a scenario, a sweep or a family: tells what that part executes, and judges nothing (default: all)",
    )
    parser.add_argument("--missing", action="store_true", help="also list the lines that are not executed")
    add_pin(parser)
    add_json(parser)


def execute(args: argparse.Namespace) -> int:
    from parity.errors import ExitCode, UsageError
    from parity.oracle_side import find_pin, measure_oracle
    from parity.reach.decisions import FILE, judge, read_decisions
    from parity.reach.play import reach_of
    from parity.reach.show import shown_object
    from parity.report.progress import RunProgress
    from parity.root import project_root
    from parity.scenario import Scenario
    from parity.suite import load_suite, select

    root = project_root()
    pin = find_pin(root, args.pin)
    chosen = [case.scenario for case in select(load_suite(root), args.scenario)]
    scenarios = [scenario for scenario in chosen if isinstance(scenario, Scenario)]
    if not scenarios:
        raise UsageError(
            "only level serve is chosen, which the oracle's driver does not play",
            hint="choose scenarios of plan or schedule",
        )
    try:
        decisions = read_decisions((root / FILE).read_bytes())
    except OSError as error:
        raise UsageError(f"{FILE}: {error.strerror}", hint="restore it from the repository") from None
    measure_oracle(root, pin)
    files = reach_of(root, pin, scenarios, RunProgress())
    judged = None if args.scenario else judge(files, decisions)
    if args.json:
        json.dump(shown_object(files, decisions, judged, pin=pin.name, scenarios=len(scenarios)), sys.stdout)
        print()
    else:
        _print(args, files, decisions, judged, f"{len(scenarios)} scenarios on vLLM {pin.version}")
    return ExitCode.OK if judged is None or judged.settled else ExitCode.FINDINGS


def _print(
    args: argparse.Namespace,
    files: Sequence[File],
    decisions: Decisions,
    judged: Judged | None,
    head: str,
) -> None:
    from rich.console import Console

    from parity.reach.decisions import FILE
    from parity.reach.show import missing_lines, table, verdict_lines

    console = Console(highlight=False, soft_wrap=True, markup=False)
    console.print(f"{head}: of the bodies of functions in vllm/v1/core are executed")
    console.print(table(files, judged))
    if args.missing:
        console.print("\n".join(["not executed, by line:", *missing_lines(files)]))
    if judged is None:
        console.print("a part of the suite: what it does not reach is not judged")
        return
    console.print("\n".join(verdict_lines(files, judged, decisions)))
    if not judged.settled:
        console.print(
            f"next: write a scenario for what is to do, or its reason into {FILE}; drop what is stale there"
        )

"""`make bench`, or `python -m parity.bench`: every figure beside what it should reach; progress on stderr.

Exit code 0 when every figure was measured, met or not; 2 when one could not be; 64 for a wrong command line.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from engine.cli.options import positive
from oracle.install import oracle_environment, oracle_python
from parity.bench import hunt, steps
from parity.bench.cold_start import cold_start
from parity.bench.figures import Cell, Figure, figure_lines, rate_table
from parity.bench.text import QUICK, Launcher, ModelFacts, Plan, measure_dtype, measure_prefix
from parity.cli.parser import Parser
from parity.errors import ExitCode, ParityError, UsageError
from parity.interrupts import take_over
from parity.oracle_side import find_pin, measure_oracle, oracle_faults
from parity.root import project_root

PARTS = ("steps", "hunt", "text", "prefix", "cold-start")
FULL = Plan()
LEAST_ROUNDS = 3
BUSY = 0.5  # load a CPU above which others compete with what is measured


class Report(msgspec.Struct):
    """What a run of the bench found, as `--json` prints it."""

    cpus: int
    load: float  # of the machine over a minute, when the bench began
    plan: Plan
    cells: list[Cell] = []
    figures: list[Figure] = []


def build_parser() -> argparse.ArgumentParser:
    parser = Parser(prog="make bench", description="Measure the engine beside upstream and transformers.")
    parser.add_argument("--model", type=Path, default=Path(".models/smollm2-135m-instruct"), metavar="DIR")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"at least {LEAST_ROUNDS} (default)")
    parser.add_argument("--dtype", action="append", choices=FULL.dtypes, help="repeatable (default: both)")
    parser.add_argument("--batch", action="append", type=positive, metavar="N", help="repeatable (1, 8, 32)")
    parser.add_argument("--only", choices=PARTS, help="one part (default: all but cold-start)")
    parser.add_argument("--quick", action="store_true", help="one round of batch 8 in float32, no prefix")
    parser.add_argument("--cold-start", action="store_true", help="also start both servers, once each")
    parser.add_argument("--json", action="store_true", help="print one JSON object to stdout, for scripts")
    return parser


def planned(args: argparse.Namespace) -> Plan:
    """What the command line asks for. Raises UsageError for rounds of which no median can be taken."""
    plan = QUICK if args.quick else FULL
    rounds = plan.rounds if args.rounds is None else args.rounds
    if args.quick and rounds != 1:
        raise UsageError("--quick is one round", hint="leave --rounds out, or --quick")
    if not args.quick and rounds < LEAST_ROUNDS:
        raise UsageError(
            f"--rounds {rounds} makes no median", hint=f"give at least {LEAST_ROUNDS}, or --quick"
        )
    return msgspec.structs.replace(
        plan,
        rounds=rounds,
        dtypes=tuple(args.dtype or plan.dtypes),
        batches=tuple(args.batch or plan.batches),
    )


def parts(args: argparse.Namespace) -> set[str]:
    """Which of PARTS the command line asks for."""
    if args.only is not None:
        return {args.only}
    chosen = {
        "steps": True,
        "hunt": not args.quick,
        "text": True,
        "prefix": not args.quick,
        "cold-start": args.cold_start,
    }
    return {part for part, wanted in chosen.items() if wanted}


def run(args: argparse.Namespace) -> Report:
    plan, wanted = planned(args), parts(args)
    report = Report(os.cpu_count() or 1, os.getloadavg()[0], plan)
    root = project_root()
    model = args.model.expanduser().absolute()
    facts = ModelFacts.read(model) if wanted - {"steps", "hunt"} else None
    pin = find_pin(root, None)
    measured = measure_oracle(root, pin)
    if "steps" in wanted:
        say(f"step ratio, rounds: {plan.rounds}")
        report.figures.append(steps.ratio(root, pin, plan.rounds))
    if "hunt" in wanted:
        say(f"hunting at level schedule, rounds: {plan.rounds}")
        report.figures += hunt.figures(root, pin, measured, plan.rounds)
    if facts is None:
        return report
    with oracle_faults():
        python, environment = oracle_python(root, pin), oracle_environment(root, pin)
    launcher = Launcher(root, model, python, environment)
    for dtype in plan.dtypes if "text" in wanted else ():
        cells, figures = measure_dtype(launcher.of_dtype, dtype, plan, facts, say)
        report.cells += cells
        report.figures += figures
    if "prefix" in wanted:
        report.figures.append(measure_prefix(launcher.of_cache, plan.dtypes[0], plan, facts, say))
    if "cold-start" in wanted:
        say("cold start of both servers")
        report.figures.append(cold_start(model, root, python, environment, plan.pool_bytes))
    return report


def show(report: Report) -> str:
    """The report for a person."""
    plan = report.plan
    pieces = [f"{report.cpus} CPUs, load {report.load:.1f} at the start; medians (smallest to largest)"]
    if report.load > report.cpus * BUSY:
        pieces.append(
            "the machine was busy with something else: take no figure of this run for what it can do"
        )
    if report.cells:
        pieces.append(
            f"generated tokens/s, prefill included: prompts of {plan.prompt_tokens} random ids, "
            f"{plan.new_tokens} new, greedy, past EOS, rounds: {plan.rounds}\n{rate_table(report.cells)}"
        )
    pieces.append(figure_lines(report.figures))
    return "\n\n".join(pieces)


def as_json(report: Report) -> str:
    """The report for a script: each figure says whether it is `met`, null where it was not measured."""
    values = msgspec.to_builtins(report)
    for value, figure in zip(values["figures"], report.figures, strict=True):
        value["met"] = figure.met
    return msgspec.json.encode(values).decode()


def say(line: str) -> None:
    print(f"bench: {line}", file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    take_over()
    try:
        report = run(args)
    except ParityError as error:
        print(f"bench: {error}", file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return int(ExitCode.INTERRUPTED)
    print(as_json(report) if args.json else show(report))
    missing = any(figure.found is None for figure in report.figures)
    return int(ExitCode.INCONCLUSIVE if missing else ExitCode.OK)


if __name__ == "__main__":
    raise SystemExit(main())

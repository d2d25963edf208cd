"""`make mutants`, or `python -m parity.detection.mutants`: faults planted one at a time, and who notices them.

Exit code 0 when the shares are as they should be and no entry of `equivalent.toml` is stale, 1 when not; 2 when nothing
could be concluded, 64 for a wrong command line. Mutants are in memory only: the source is never written to.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from parity.cli.options import positive
from parity.cli.parser import Parser
from parity.detection import report as reports
from parity.detection.equivalent import FILE, Entry, gone, read_entries, split_known
from parity.detection.material import take
from parity.detection.mutation import Mutant, file_of, mutants_of
from parity.detection.planting import Planting
from parity.detection.result import Kill, Result
from parity.detection.sample import pick
from parity.detection.targets import BY_FILE, TARGETS
from parity.errors import ExitCode, ParityError, UsageError
from parity.interrupts import take_over
from parity.root import project_root

EXAMPLE = "python -m parity.detection.mutants --only engine.scheduler --by check"


def build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="make mutants",
        description="Plant faults one at a time in the engine and in the judge, and see who notices them.",
        epilog=f"example:\n  {EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="MODULE", help="one module, such as engine.scheduler"
    )
    parser.add_argument("--mutant", action="append", default=[], metavar="ID", help="one mutant")
    parser.add_argument("--by", choices=("check", "tests"), help="one way of noticing (default: both)")
    parser.add_argument("--all", action="store_true", help="every mutant there is, in place of a sample")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="which sample (default: 0)")
    parser.add_argument(
        "--jobs", type=positive, default=os.cpu_count() or 1, metavar="N", help="children at once"
    )
    parser.add_argument(
        "--list", action="store_true", help="say which mutants would be planted, and plant none"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object to stdout, for scripts")
    return parser


def chosen(
    args: argparse.Namespace, root: Path, entries: Sequence[Entry]
) -> tuple[list[Mutant], list[Mutant]]:
    """The mutants to plant, and all there are in the files asked for. Raises UsageError for what there is not."""
    files = [_file(name) for name in args.only] or [file_of(name) for name in args.mutant]
    for file in files:
        if file not in BY_FILE:
            raise UsageError(
                f"no mutants are made of {file}", hint=f"begin with one of {', '.join(_modules())}"
            )
    targets = [target for target in TARGETS if not files or target.file in files]
    picked: list[Mutant] = []
    every: list[Mutant] = []
    for target in targets:
        there = mutants_of(root, target.file)
        every += there
        usual = there if args.all else pick(there, target.share, args.seed)
        names = {mutant.id for mutant in usual} | {entry.mutant for entry in entries}
        picked += [mutant for mutant in there if mutant.id in (args.mutant or names)]
    missing = set(args.mutant) - {mutant.id for mutant in picked}
    if missing:
        raise UsageError(f"no mutant {min(missing)}", hint="--list --all --only MODULE names them")
    return picked, every


def _file(module: str) -> str:
    return module if module.endswith(".py") else module.replace(".", "/") + ".py"


def _modules() -> list[str]:
    return [target.file.removesuffix(".py").replace("/", ".") for target in TARGETS]


def run(args: argparse.Namespace, root: Path) -> tuple[reports.Report, list[Mutant]]:
    began = time.monotonic()
    entries = read_entries(root / FILE)
    mutants, every = chosen(args, root, entries)
    _, known = split_known(mutants, entries)
    lost = [] if args.mutant else gone(entries, every, {mutant.file for mutant in every})
    checked: dict[str, Kill] = {}
    tested: dict[str, Kill] = {}
    interrupted = False
    try:
        if args.by != "tests":
            Planting(root, take(root, say).observations, args.jobs, say).check(mutants, checked)
        if args.by != "check":
            Planting(root, {}, args.jobs, say).tests(mutants, tested)
    except KeyboardInterrupt:
        if not checked and not tested:
            raise
        interrupted = True
    results = [
        Result(
            id=mutant.id,
            file=mutant.file,
            line=mutant.line,
            was=mutant.was,
            becomes=mutant.becomes,
            check=checked.get(mutant.id),
            tests=tested.get(mutant.id),
            equivalent=known[mutant.id].because if mutant.id in known else None,
        )
        for mutant in mutants
    ]
    seconds = time.monotonic() - began
    return reports.Report(results, lost, args.seed, len(every), seconds, interrupted), mutants


def say(line: str) -> None:
    print(f"mutants: {line}", file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    take_over()
    try:
        root = project_root()
        if args.list:
            picked, _ = chosen(args, root, read_entries(root / FILE))
            print("\n".join(f"{mutant.id}: {mutant.was} -> {mutant.becomes}" for mutant in picked))
            return int(ExitCode.OK)
        found, mutants = run(args, root)
    except ParityError as error:
        print(f"mutants: {error}", file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        print("mutants: interrupted", file=sys.stderr)
        return int(ExitCode.INTERRUPTED)
    print(reports.as_json(found) if args.json else "\n".join(reports.lines(found, root, mutants)))
    if found.interrupted:
        return int(ExitCode.INTERRUPTED)
    return int(ExitCode.OK if found.passes else ExitCode.FINDINGS)


if __name__ == "__main__":
    raise SystemExit(main())

"""`make masking`, or `python -m parity.detection.masking`: two faults at once, one of them on record; does the other show?

Of each pair the one fault's findings are accepted records, in memory. The other one stays hidden in a check if that is
green with both planted, and wholly in a hunt if no fingerprint over generated scenarios is new, though alone it would show
there. A hunt is measured twice: by fingerprints alone, and looking behind what is known, as `parity fuzz` does.
Exit code 0 when no more stay hidden than may, 1 when more do; 2 when nothing could be concluded, 64 for a wrong command line.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parity.cli.options import positive
from parity.cli.parser import Parser
from parity.detection import pairs as made
from parity.detection.children import Answer, Task, run_all
from parity.detection.hiding import by_everything, by_hunt, by_known, by_recorded
from parity.detection.material import take
from parity.detection.mutation import Mutant, diff_of, mutants_of
from parity.detection.pairs import Fault, Pair
from parity.detection.pool import Pool, alike, gather
from parity.detection.recording import Shown
from parity.detection.replay import Check, plays_of
from parity.detection.sample import pick
from parity.detection.targets import TARGETS
from parity.errors import ExitCode, InconclusiveError, ParityError
from parity.fuzz.behind import DEPTH
from parity.interrupts import take_over
from parity.records.parse import load_records
from parity.root import project_root

SECONDS = 300.0  # a child: none takes twenty on an idle machine
QUIET = 5.0
MOST_FAULTS = 60
DEPTHS = {"hunt": 0, "behind": DEPTH}


def build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="make masking",
        description="Plant two faults at once, put one on record, and see whether the other still shows.",
        epilog="example:\n  python -m parity.detection.masking --pairs 40 --pool 300",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--pairs", type=positive, default=160, metavar="N", help="pairs (default: 160)")
    parser.add_argument(
        "--pool",
        type=positive,
        default=1000,
        metavar="N",
        help="generated scenarios of the hunt (default: 1000)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="which faults, pairs, scenarios (default: 0)"
    )
    parser.add_argument(
        "--jobs", type=positive, default=os.cpu_count() or 1, metavar="N", help="children at once"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object to stdout, for scripts")
    return parser


class Masking:
    """One measurement: faults are found and recorded, then planted in pairs."""

    def __init__(self, root: Path, args: argparse.Namespace) -> None:
        self._root = root
        self._args = args
        observations = take(root, say).observations
        self._check = Check.of(root)
        self._oracle = plays_of(self._check.cases, observations)

    def faults(self) -> list[Fault]:
        """Faults of the engine that the check notices, that crash nothing and that can be put on record."""
        mutants = [
            mutant
            for target in TARGETS
            if target.group == "engine"
            for mutant in pick(mutants_of(self._root, target.file), target.share, self._args.seed)
        ]
        base = self._one(by_everything(self._check, self._oracle, []))
        if base is None:
            raise InconclusiveError("the engine crashes with nothing planted", hint="run `make parity-quick`")
        found = self._each(
            "faults", mutants, lambda mutant: by_everything(self._check, self._oracle, [mutant])
        )
        faults = []
        for mutant in mutants:
            shown = found[mutant.id]
            if shown is not None and shown != base:
                new = {item["scenario"] for item in shown if item not in base}
                faults.append(Fault(mutant, msgspec.convert(shown, list[Shown]), len(new)))
        faults = made.fit(faults, MOST_FAULTS)
        green = self._each(
            "records",
            [fault.planted for fault in faults],
            lambda mutant: by_recorded(self._check, self._oracle, [mutant], _shown(faults, mutant)),
        )
        return [msgspec.structs.replace(fault, recordable=bool(green[fault.planted.id])) for fault in faults]

    def pairs(self, faults: Sequence[Fault]) -> list[Pair]:
        """Every pair, in a check and in a hunt of either kind."""
        pool = gather(self._root, self._args.pool, self._args.seed, say)
        committed = frozenset(
            name for record in load_records(self._root) for name in record.front.fingerprints
        )
        base = committed | alike(pool)
        planted = [fault.planted for fault in faults]
        shows = self._each("hunts of one", planted, lambda mutant: by_hunt(pool, [mutant], base, 0))
        chosen = made.make(self._root, faults, self._args.pairs, self._args.seed)
        known = self._known(pool, base, [first for first, _ in chosen])
        tasks: list[Task[tuple[str, int]]] = []
        for number, (first, second) in enumerate(chosen):
            both = [first.planted, second.planted]
            work = by_recorded(self._check, self._oracle, both, first.shown)
            tasks.append(Task(("check", number), work, SECONDS))
            if shows[second.planted.id]:
                for where, depth in DEPTHS.items():
                    names = known[where][first.planted.id]
                    tasks.append(Task((where, number), by_hunt(pool, both, names, depth), SECONDS))
        answers = {answer.key: answer.value for answer in self._told("pairs", tasks)}
        return [
            Pair(
                recorded=first.planted.id,
                other=second.planted.id,
                check=answers["check", number] is True,
                hunt=answers["hunt", number] == [] if ("hunt", number) in answers else None,
                behind=answers["behind", number] == [] if ("behind", number) in answers else None,
            )
            for number, (first, second) in enumerate(chosen)
        ]

    def _known(
        self, pool: Pool, base: frozenset[str], recorded: Sequence[Fault]
    ) -> dict[str, dict[str, frozenset[str]]]:
        """Of each kind of hunt and each fault on record, the fingerprints that a person would have accepted."""
        faults = {fault.planted.id: fault for fault in recorded}
        found: dict[str, dict[str, frozenset[str]]] = {}
        for where, depth in DEPTHS.items():
            tasks = []
            for name, fault in faults.items():
                names = base | {item.finding.fingerprint for item in fault.shown}
                tasks.append(Task(name, by_known(pool, [fault.planted], names, depth), SECONDS))
            found[where] = {
                answer.key: frozenset(answer.value or base)
                for answer in self._told(f"recording, {where}", tasks)
            }
        return found

    def _one(self, work: Callable[[], Any]) -> Any:
        (answer,) = run_all([Task("", work, SECONDS)], 1)
        if answer.failure is not None:
            raise InconclusiveError(f"the engine with nothing planted: {answer.failure}")
        return answer.value

    def _each(
        self, what: str, mutants: Sequence[Mutant], work: Callable[[Mutant], Callable[[], Any]]
    ) -> dict[str, Any]:
        """Each mutant's answer by its id; null for a child that hung or died."""
        tasks = [Task(mutant.id, work(mutant), SECONDS) for mutant in mutants]
        return {answer.key: answer.value for answer in self._told(what, tasks)}

    def _told(self, what: str, tasks: Sequence[Task[Any]]) -> list[Answer[Any]]:
        answers: list[Answer[Any]] = []
        last = time.monotonic()
        for answer in run_all(tasks, self._args.jobs):
            answers.append(answer)
            if time.monotonic() - last >= QUIET or len(answers) == len(tasks):
                last = time.monotonic()
                say(f"{what}: {len(answers)} of {len(tasks)}")
        return answers


def _shown(faults: Sequence[Fault], mutant: Mutant) -> list[Shown]:
    return next(fault.shown for fault in faults if fault.planted.id == mutant.id)


def lines(root: Path, faults: Sequence[Fault], pairs: Sequence[Pair], args: argparse.Namespace) -> list[str]:
    """The report for a person: the shares, and each pair of which one fault stayed hidden."""
    by_id: Mapping[str, Mutant] = {fault.planted.id: fault.planted for fault in faults}
    recordable = sum(fault.recordable for fault in faults)
    out = [
        f"{len(pairs)} pairs of {len(faults)} faults ({recordable} can be put on record), seed {args.seed}; "
        f"a hunt is {args.pool} generated scenarios",
        "",
        "one fault is on record, the other one stays wholly hidden",
    ]
    for share in made.shares(pairs):
        limit = made.LIMITS[share.where]
        aim = f"   (at most {limit:.0%}{'' if share.reached else ', MISSED'})" if limit < 1 else ""
        title = made.TITLES[share.where]
        out.append(f"  {title:38} {share.hidden:4} of {share.of:4}   {share.rate:6.1%}{aim}")
    for pair in pairs:
        hidden = [title for where, title in made.TITLES.items() if pair.hidden(where)]
        if hidden:
            out += ["", f"HIDDEN {' and '.join(hidden)}: {pair.other}", f"  while on record: {pair.recorded}"]
            for name in (pair.other, pair.recorded):
                out += [f"  {line}" for line in diff_of(root, by_id[name]).splitlines()[2:]]
    return out


def as_json(faults: Sequence[Fault], pairs: Sequence[Pair], args: argparse.Namespace) -> str:
    value = {
        "seed": args.seed,
        "pool": args.pool,
        "faults": len(faults),
        "shares": [
            {**msgspec.to_builtins(share), "rate": share.rate, "reached": share.reached}
            for share in made.shares(pairs)
        ],
        "pairs": msgspec.to_builtins(pairs),
    }
    return msgspec.json.encode(value).decode()


def say(line: str) -> None:
    print(f"masking: {line}", file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    take_over()
    try:
        root = project_root()
        masking = Masking(root, args)
        faults = masking.faults()
        pairs = masking.pairs(faults)
        if not pairs:
            raise InconclusiveError("no two faults make a pair", hint="take another --seed")
    except ParityError as error:
        print(f"masking: {error}", file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        print("masking: interrupted", file=sys.stderr)
        return int(ExitCode.INTERRUPTED)
    print(as_json(faults, pairs, args) if args.json else "\n".join(lines(root, faults, pairs, args)))
    reached = all(share.reached for share in made.shares(pairs))
    return int(ExitCode.OK if reached else ExitCode.FINDINGS)


if __name__ == "__main__":
    raise SystemExit(main())

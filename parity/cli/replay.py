"""`parity replay`: plays what hunts found again, and says FIXED, FAILED or VOID of each."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from parity.cli.options import Commands, add_json, add_pin, verb

if TYPE_CHECKING:
    from parity.fuzz.found import Found
    from parity.fuzz.live import Live
    from parity.fuzz.replaying import Replay
    from parity.report.progress import RunProgress

FLAKY_PLAYS = 5  # of a side that disagreed with itself: one play shows nothing of it

Files = list[tuple[str, "Found"]]


def register(commands: Commands) -> None:
    parser = verb(
        commands,
        "replay",
        "Play found files again: FIXED (0), FAILED or something else that is new (1), VOID (2)",
        "parity replay --all",
        execute,
    )
    parser.add_argument(
        "file",
        nargs="*",
        metavar="FILE|LOG#F",
        help="a file that keeps a finding, or a hunt's log and a fingerprint of it",
    )
    parser.add_argument("--all", action="store_true", help="every file of runs/found")
    add_pin(parser)
    add_json(parser)


def execute(args: argparse.Namespace) -> int:
    from contextlib import closing

    import msgspec

    from parity.fuzz.live import Live
    from parity.fuzz.replaying import exit_code
    from parity.report.progress import RunProgress
    from parity.root import project_root

    root = project_root()
    files = _files(root, args.file, whole=args.all)
    progress = RunProgress()
    replays: list[Replay] = []
    asked = [(found.scenario, found.policies) for _, found in files]
    with closing(Live(root, args.pin, asked, progress)) as live, progress.playing(len(files), 0):
        for one in _replays(live, files, progress):
            replays.append(one)
            if not args.json:
                print(f"{one.verdict.value}  {one.file}: {one.detail}", flush=True)
    if args.json:
        counts = {one.verdict.value: 0 for one in replays}
        for one in replays:
            counts[one.verdict.value] += 1
        print(json.dumps({"counts": counts, "replays": msgspec.to_builtins(replays)}))
    return int(exit_code(replays))


def _files(root: Path, paths: list[str], *, whole: bool) -> Files:
    """What is to be played, those of one server one after the other. Every file is read before anything is played."""
    from parity.errors import InconclusiveError, UsageError
    from parity.fuzz.found import FOLDER, kept
    from parity.fuzz.size import as_key
    from parity.fuzz.source import found_in
    from parity.runfile import shown

    if whole == bool(paths):
        raise UsageError(
            "give files or --all, one of them", hint=f"such as `parity replay {FOLDER}/NAME.yaml`"
        )
    if whole and not kept(root):
        raise InconclusiveError(
            f"nothing is kept in {FOLDER}", hint="`parity fuzz` keeps what it finds there"
        )
    named = (
        [(str(shown(root, path)), str(path)) for path in kept(root)]
        if whole
        else zip(paths, paths, strict=True)
    )
    files = [(name, found_in(root, place)) for name, place in named]
    return sorted(
        files,
        key=lambda file: (
            file[1].scenario["level"] == "serve",
            sorted(file[1].policies.items()),
            as_key(file[1].scenario["config"]) if file[1].scenario["level"] == "serve" else "",
        ),
    )


def _replays(live: Live, files: Files, progress: RunProgress) -> Iterator[Replay]:
    from parity.fuzz.document import case_from
    from parity.fuzz.replaying import replay

    for name, found in files:
        times = FLAKY_PLAYS if found.fingerprint.startswith("flaky:") else 1
        judged = live.play(case_from(found.scenario), found.policies, times).judged
        progress.played()
        yield replay(name, found, judged, live.known(found.policies), live.version)

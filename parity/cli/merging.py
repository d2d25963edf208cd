"""What `parity fuzz --merge` does: hunts of one seed that were split over machines, or cut short, told as one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from rich.console import Console

from parity.cli.hunting import exit_code, kept_find
from parity.cli.output import until_the_reader_leaves
from parity.fuzz import log
from parity.fuzz.joining import Joined, join
from parity.fuzz.tally import tally_of
from parity.report.hunt import Hunted, Kept
from parity.report.joined import joined_object, joined_text
from parity.root import project_root


def merge(folders: Sequence[Path], *, as_json: bool) -> int:
    """Join the hunts in these folders; a unit that is in two counts once. The exit code is that of one hunt."""
    logs = [log.read_log(folder) for folder in folders]
    log.check_parts(logs, [str(folder) for folder in folders])
    joined = join(logs)
    hunted = _hunted(folders, logs, joined)
    with until_the_reader_leaves():
        if as_json:
            json.dump(joined_object(hunted, joined), sys.stdout)
            print()
        else:
            Console(soft_wrap=True, highlight=False).print(joined_text(hunted, joined))
    return int(exit_code(hunted))


def _hunted(folders: Sequence[Path], logs: Sequence[log.Log], joined: Joined) -> Hunted:
    """All of it as one hunt, whose wall time is that of one job."""
    tally = tally_of(done for one in logs for done in one.units)
    kept = _kept(logs)
    left = {find.fingerprint for find in tally.finds()} - kept.keys()
    shard = joined.parts[0].shard if len(joined.parts) == 1 else (1, 1)
    return Hunted(
        header=msgspec.structs.replace(logs[0].header, shard=shard),
        tally=tally,
        kept=tuple(kept.values()),
        left=len(left),
        wall=tally.spent.whole,
        jobs=1,
        folder=folders[0] if len(folders) == 1 else None,
        logs={fingerprint: path for fingerprint, path in _places(folders, logs) if fingerprint in left},
    )


def _kept(logs: Sequence[log.Log]) -> dict[str, Kept]:
    """Each fingerprint's first shrunk find, in a file of its own."""
    root = project_root()
    kept: dict[str, Kept] = {}
    for one in logs:
        for reduced in one.finds:
            if reduced.find.fingerprint not in kept:
                kept[reduced.find.fingerprint] = kept_find(root, one.header, reduced)
    return kept


def _places(folders: Sequence[Path], logs: Sequence[log.Log]) -> Iterator[tuple[str, Path]]:
    """Each find's fingerprint with the log that has it."""
    for folder, one in zip(folders, logs, strict=True):
        for done in one.units:
            for find in done.finds:
                yield find.fingerprint, log.file_of(folder)

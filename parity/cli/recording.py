"""What the actions of `parity record` share: whose records, which run, which of upstream's source."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from parity.errors import UsageError

if TYPE_CHECKING:
    from parity.runlog import RunFile
    from parity.subjects.subject import Loaded


def read_source(args: argparse.Namespace) -> tuple[RunFile, str]:
    """The run file, and the scenario in it, that `--from RUNFILE#SCENARIO` names."""
    from parity.runlog import read_run

    run, mark, scenario = args.source.rpartition("#")
    if not (mark and run and scenario):
        raise UsageError(f"--from {args.source!r} is not RUNFILE#SCENARIO")
    read = read_run(Path(run))
    if read.header.against is not None:
        raise UsageError(
            f"{run} held two subjects against each other; records are about one subject and upstream",
            hint="run the scenario again without --against",
        )
    return read, scenario


def subject_of(args: argparse.Namespace, root: Path, read: RunFile | None = None) -> Loaded:
    """The subject whose records these are: the one named, else that of the run, else the engine.

    Raises UsageError where the run held another one, or the same one as its file said then and says no more.
    """
    from parity.subjects.subject import DEFAULT, find_subject, load_subject

    if read is None:
        return load_subject(find_subject(root, args.subject or DEFAULT))
    held = read.header.subject
    if args.subject is None and held.name != DEFAULT:
        args.subject = held.name  # what is printed for the next step names it
    loaded = load_subject(find_subject(root, args.subject or DEFAULT))
    if loaded.digest != held.digest:
        raise UsageError(
            f"the run held {held.name} as its file said then, and {loaded.path} says something else",
            hint="name the subject's file with --subject, or run again",
        )
    return loaded


def flag(args: argparse.Namespace) -> str:
    """The option that names the subject in a command to come; the engine needs none."""
    return "" if args.subject is None else f" --subject {args.subject}"


def path_of(root: Path, loaded: Loaded, name: str) -> Path:
    from parity.records.listing import find
    from parity.records.parse import load_records

    path = loaded.records / f"{name}.md"
    if path.is_file() and path.resolve().is_relative_to(loaded.records):
        return path
    return root / find(load_records(root, loaded.records), name).path


def upstream_of(args: argparse.Namespace, root: Path) -> Path | None:
    """The folder that holds upstream's `vllm/`: the one given, or the default pin's; null where neither is there."""
    if args.upstream is None:
        return _installed(root)
    folder = Path(args.upstream)
    if not (folder / "vllm").is_dir():
        raise UsageError(f"--upstream {folder}: there is no folder vllm in it")
    return folder


def _installed(root: Path) -> Path | None:
    from oracle.errors import OracleFault
    from oracle.interpreter import given_python, has_overlay, oracle_folder, overlay_folder
    from oracle.pins import load_pin

    given = given_python()
    try:
        pin = load_pin(root)
        places = [overlay_folder(root, pin)] if has_overlay(root, pin) else []
        environment = oracle_folder(root, pin) if given is None else given.parent.parent
    except OracleFault:
        return None
    places += sorted(environment.glob("lib/python3*/site-packages"))
    return next((place for place in places if (place / "vllm").is_dir()), None)


def add_subject(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--subject",
        default=None,
        metavar="NAME|FILE",
        help="whose records: a file of subjects/ by name, or any subject's TOML file (default: engine, or the run's)",
    )


def say(text: str) -> None:
    print(text, file=sys.stderr)

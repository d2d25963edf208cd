"""`parity adopt`: a newcomer's baseline, one undecided record a fingerprint, so that a check is green today and honest."""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from parity.cli.options import Commands, add_json, add_pin, day, some_path, verb

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parity.runlog import RunFile
    from parity.subjects.adopt import Adoption, Terms
    from parity.subjects.subject import Loaded

OWNER = "@maintainers"
DAYS = 90  # how long a baseline may stay undecided
REPEAT = 2  # plays, as a check has: what disagrees with itself is no ground for a record
MAX_LEFT = 20  # lines about what is not adopted


def register(commands: Commands) -> None:
    parser = verb(
        commands,
        "adopt",
        "Write a subject's baseline: every finding that nobody decided, as an undecided record a fingerprint",
        "parity adopt --subject toy.toml --owner @you --expires 2027-02-01",
        execute,
    )
    parser.add_argument(
        "--subject",
        required=True,
        metavar="NAME|FILE",
        help="whose: a file of subjects/ by name, or any subject's TOML file",
    )
    parser.add_argument(
        "--owner", default=OWNER, metavar="@WHO", help=f"who answers for it (default: {OWNER})"
    )
    parser.add_argument(
        "--expires",
        type=day,
        default=None,
        metavar="YYYY-MM-DD",
        help=f"the last day on which nobody need have decided (default: in {DAYS} days)",
    )
    parser.add_argument(
        "--suite",
        default=None,
        metavar="V",
        help="take up the scenarios up to this version of the suite (default: `suite` in the subject's file)",
    )
    parser.add_argument(
        "--from",
        dest="source",
        type=some_path,
        default=None,
        metavar="RUN",
        help="a finished run of the whole suite, in the place of playing it",
    )
    add_pin(parser)
    add_json(parser)


def execute(args: argparse.Namespace) -> int:
    from parity.interrupts import heed
    from parity.records.layout import create_all
    from parity.records.parse import load_records
    from parity.root import project_root
    from parity.subjects.adopt import adopt, check_is_new, check_run
    from parity.subjects.adopt_text import files
    from parity.subjects.subject import find_subject, load_subject
    from parity.suite import load_suite

    root = project_root()
    loaded = load_subject(find_subject(root, args.subject))
    terms = _terms(args, loaded)
    records = load_records(root, loaded.records)
    check_is_new(records, terms.suite)
    cases = {case.id: case for case in load_suite(root)}
    run = _run(args, root, loaded)
    check_run(run, cases)
    adoption = adopt(run, records, cases, terms)
    written = files(adoption, loaded.records, _named(args.subject, root, loaded))
    _lint(root, loaded, written)
    heed()  # a request may have come while both sides were ended
    create_all(written)
    _print(args, root, loaded, terms, adoption)
    return int(adoption.exit_code)


def _terms(args: argparse.Namespace, loaded: Loaded) -> Terms:
    from parity.errors import UsageError
    from parity.records.rules_front import PERSON
    from parity.subjects.adopt import Terms
    from parity.suite import VERSION, VERSION_SYNTAX, version_of

    if not PERSON.fullmatch(args.owner):
        raise UsageError(f"--owner {args.owner!r} is no handle", hint="write it as @you")

    today = datetime.datetime.now(tz=datetime.UTC).date()
    expires = args.expires or today + datetime.timedelta(days=DAYS)
    if expires <= today:
        raise UsageError(f"--expires {expires} is not to come", hint="name a later day")
    own, suite = loaded.subject.suite, args.suite or loaded.subject.suite
    if not VERSION_SYNTAX.fullmatch(suite):
        raise UsageError(f"--suite {suite!r} is no version", hint=f"the newest is {VERSION}")
    if version_of(suite) < version_of(own):
        raise UsageError(f"--suite {suite} is older than {own}, which {loaded.path} answers for already")
    if args.suite is not None and version_of(suite) > version_of(VERSION):
        raise UsageError(f"there is no suite {suite} yet", hint=f"the newest is {VERSION}")
    return Terms(args.owner, today, expires, suite)


def _run(args: argparse.Namespace, root: Path, loaded: Loaded) -> RunFile:
    """The run that is given, which has to be of this very subject, or a new one of the whole suite."""
    from parity.ask import Ask
    from parity.errors import UsageError
    from parity.report.progress import RunProgress
    from parity.runlog import read_run
    from parity.session import run

    if args.source is None:
        ask = Ask(root, args.pin, repeat=REPEAT, subject=str(loaded.path))
        return read_run(run(ask, RunProgress()).path)
    if args.pin is not None:
        raise UsageError("--from plays nothing, so --pin has no part in it", hint="leave one of them out")
    read = read_run(args.source)
    if read.header.subject.digest != loaded.digest:
        raise UsageError(
            f"{args.source} held {read.header.subject.name}, and not as {loaded.path} says now",
            hint="leave --from out, and the whole suite is played",
        )
    return read


def _named(given: str, root: Path, loaded: Loaded) -> str:
    """How a record names the subject in a command: with nothing of the machine that it was written on."""
    if not given.endswith(".toml"):
        return given
    path = loaded.path
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


def _lint(root: Path, loaded: Loaded, written: Mapping[Path, str]) -> None:
    """What is generated keeps every rule; that it does not would be a fault of ours."""
    from parity.errors import HarnessError
    from parity.records.lint import ground_of, lint
    from parity.records.parse import COMPANION, parse_text

    ground = ground_of(root, None, loaded.records, loaded.subject.profile)
    for path, text in written.items():
        if path.suffix == ".md":
            beside = written.get(path.with_name(f"{path.stem}{COMPANION}"))
            for problem in lint(parse_text(text, path.as_posix(), beside), ground):
                raise HarnessError(f"the baseline would break a rule of its own lint: {problem}")


def _print(args: argparse.Namespace, root: Path, loaded: Loaded, terms: Terms, adoption: Adoption) -> None:
    if args.json:
        import json

        print(json.dumps(_object(args, root, loaded, terms, adoption)))
        return
    for group in adoption.groups:
        print(f"{group.record.id}  {len(group.scenarios)}  {group.record.front.title}")
    for line in _summary(args, root, loaded, terms, adoption):
        print(line)


def _summary(
    args: argparse.Namespace, root: Path, loaded: Loaded, terms: Terms, adoption: Adoption
) -> list[str]:
    from parity.report.progress import counted
    from parity.runfile import shown

    folder = shown(root, loaded.records)
    lines = []
    if adoption.groups:
        lines.append(
            f"adopted {counted(adoption.findings, 'finding')} in {counted(adoption.scenarios, 'scenario')}:"
            f" {counted(len(adoption.groups), 'undecided record')} in {folder}, owner {terms.owner}, until {terms.expires}"
        )
    elif adoption.is_conclusive:
        lines.append("nothing to adopt: no finding is undecided")
    else:
        lines.append(
            "nothing was adopted: mend what says nothing, or claim less in the subject's file; then adopt"
        )
    if adoption.covered:
        lines.append(f"left alone: {counted(adoption.covered, 'finding')} that accepted records cover")
    if adoption.left:
        lines.append(f"not adopted, and not passing: {counted(len(adoption.left), 'finding')}")
        lines += [
            f"  {item.verdict.value}  {item.scenario}  {item.reason}" for item in adoption.left[:MAX_LEFT]
        ]
        if len(adoption.left) > MAX_LEFT:
            lines.append(f"  and {len(adoption.left) - MAX_LEFT} more: `{_next(args)}` shows them all")
    if adoption.ahead:
        lines.append(
            f"not taken up: {counted(adoption.ahead, 'scenario')} newer than suite {terms.suite} (--suite V does)"
        )
    if terms.suite != loaded.subject.suite:
        lines.append(
            f'to do: suite = "{terms.suite}" in {shown(root, loaded.path)}; until then what is new decides nothing'
        )
    return [*lines, f"next: {_next(args)}"]


def _object(
    args: argparse.Namespace, root: Path, loaded: Loaded, terms: Terms, adoption: Adoption
) -> dict[str, object]:
    from parity.runfile import shown

    folder = shown(root, loaded.records)
    return {
        "subject": loaded.subject.name,
        "suite": terms.suite,
        "owner": terms.owner,
        "expires": terms.expires.isoformat(),
        "findings": adoption.findings,
        "scenarios": adoption.scenarios,
        "covered": adoption.covered,
        "ahead": adoption.ahead,
        "records": [
            {
                "id": group.record.id,
                "path": (folder / f"{group.record.id}.md").as_posix(),
                "fingerprint": group.record.front.fingerprints[0],
                "attribution": group.record.front.attribution,
                "scenarios": list(group.scenarios),
            }
            for group in adoption.groups
        ],
        "left": [
            {"scenario": item.scenario, "verdict": item.verdict.value, "reason": item.reason}
            for item in adoption.left
        ],
        "next": _next(args),
    }


def _next(args: argparse.Namespace) -> str:
    return f"parity check --subject {args.subject}"

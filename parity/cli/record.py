"""`parity record`: file, bring up to date, accept, lint, list and show the decisions in `records/`."""

from __future__ import annotations

import argparse
import datetime
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from parity.cli.options import Commands, add_json, day, verb
from parity.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from parity.records.draft import Measured
    from parity.runlog import RunFile
    from parity.subjects.subject import Loaded

OWNER = "@maintainers"


def register(commands: Commands) -> None:
    parser = verb(
        commands,
        "record",
        "file and review the decisions about findings",
        "parity record new --from run.jsonl#auto-fit/null-block",
        execute,
    )
    actions = parser.add_subparsers(
        dest="action", metavar="ACTION", required=True, parser_class=type(parser), title="actions"
    )
    _register_writing(actions)
    _register_deciding(actions)
    _register_accepting(actions)
    _register_reading(actions)


def _register_writing(actions: Commands) -> None:
    new = verb(
        actions,
        "new",
        "write the draft of a record from what a run found",
        "parity record new --from run.jsonl#auto-fit/null-block --by @maintainers",
        _new,
    )
    _add_from(new, required=True)
    new.add_argument("--slug", default=None, help="the file's name (default: the scenario's)")
    new.add_argument("--by", default=OWNER, metavar="@WHO", help=f"who proposes it (default: {OWNER})")
    _add_subject(new)
    _add_upstream(new)
    refresh = verb(
        actions,
        "refresh",
        "renew a record's anchors and generated part, or take up what a run measured (proposed again then)",
        "parity record refresh auto-fit/null-block-counted --from run.jsonl#auto-fit/one-block-high/block-16",
        _refresh,
    )
    refresh.add_argument("id", metavar="ID", help="the record, as <area>/<slug>")
    _add_from(refresh, required=False)
    _add_subject(refresh)
    _add_upstream(refresh)


def _register_accepting(actions: Commands) -> None:
    accept = verb(
        actions,
        "accept",
        "accept a proposed record; refused while the lint finds anything in it",
        "parity record accept auto-fit/null-block-counted --by @maintainers",
        _accept,
    )
    accept.add_argument("id", metavar="ID", help="the record, as <area>/<slug>")
    accept.add_argument("--by", required=True, metavar="@WHO", help="who decides")
    accept.add_argument(
        "--solo", action="store_true", help="the one who proposed it decides; reports show that"
    )
    _add_subject(accept)
    _add_upstream(accept)


def _register_deciding(actions: Commands) -> None:
    decide = verb(
        actions,
        "decide",
        "make the draft of a decision from an undecided record: proposed, its prose to be written",
        "parity record decide caching/undecided-0123abcd owed --expires 2027-02-01 --subject toy.toml",
        _decide,
    )
    decide.add_argument("id", metavar="ID", help="the record, as <area>/<slug>")
    decide.add_argument(
        "decision", choices=("mirror", "diverge", "owed", "unsupported"), help="what is decided"
    )
    decide.add_argument(
        "--expires",
        type=day,
        default=None,
        metavar="YYYY-MM-DD",
        help="the day of what is owed or unsupported",
    )
    _add_subject(decide)


def _register_reading(actions: Commands) -> None:
    lint = verb(actions, "lint", "check every record against every rule", "parity record lint", _lint)
    _add_subject(lint)
    _add_upstream(lint)
    add_json(lint)
    list_ = verb(actions, "list", "list the records", "parity record list --json", _list)
    _add_subject(list_)
    add_json(list_)
    show = verb(actions, "show", "print one record", "parity record show auto-fit/null-block-counted", _show)
    show.add_argument("id", metavar="ID", help="the record, as <area>/<slug>")
    _add_subject(show)
    add_json(show)


def execute(args: argparse.Namespace) -> int:
    """Never reached with an action given: each action is its own `execute`."""
    raise UsageError(f"unknown action {args.action!r}", hint="see 'parity record --help'")


def _new(args: argparse.Namespace) -> int:
    from parity.records.draft import draft, usual_anchors
    from parity.records.layout import create, draft_text
    from parity.records.rules_front import SLUG
    from parity.root import project_root
    from parity.runfile import shown

    root = project_root()
    if args.slug is not None and not SLUG.fullmatch(args.slug):
        raise UsageError(f"--slug {args.slug!r} is not lower-case words joined by dashes")
    read, scenario = _run(args)
    loaded = _subject(args, root, read)
    measured = _measured(args, read, scenario)
    anchors = usual_anchors(measured, root, _upstream(args, root))
    front = draft(measured, by=args.by, today=_today(), anchors=anchors)
    area, _, slug = measured.line.id.partition("/")
    path = loaded.records / area / f"{args.slug or slug.replace('/', '-')}.md"
    create(path, draft_text(front))
    print(shown(root, path).as_posix())
    _say(f"write its prose, then `parity record lint{_flag(args)}`; it covers nothing until it is accepted")
    return ExitCode.OK


def _refresh(args: argparse.Namespace) -> int:
    from parity.records.layout import companion_text, replace
    from parity.records.parse import read_raw, to_record
    from parity.records.refresh import reread, rewritten, take_up
    from parity.root import project_root

    root = project_root()
    source = None if args.source is None else _run(args)
    path = _path_of(root, _subject(args, root, source and source[0]), args.id)
    raw = read_raw(root, path)
    record = to_record(raw)
    if source is None:
        replace(path, reread(raw, record, root, _upstream(args, root)))
    else:
        front = take_up(record, _measured(args, *source))
        text, beside = rewritten(raw, front), companion_text(record.id, front)
        if beside is not None:
            replace(root / raw.companion_path, beside)
        elif raw.companion is not None:
            (root / raw.companion_path).unlink()
        replace(path, text)
        _say(
            f"it is proposed again: `parity record accept {record.id}{_flag(args)} --by @…` once it is reviewed"
        )
    print(raw.path)
    return ExitCode.OK


def _decide(args: argparse.Namespace) -> int:
    from parity.records.layout import replace
    from parity.records.parse import read_raw, to_record
    from parity.records.undecided import decided_text
    from parity.root import project_root

    root = project_root()
    path = _path_of(root, _subject(args, root), args.id)
    raw = read_raw(root, path)
    record = to_record(raw)
    replace(path, decided_text(record, args.decision, args.expires))
    print(raw.path)
    _say(
        f"write its prose, then `parity record lint{_flag(args)}` and"
        f" `parity record accept {record.id}{_flag(args)} --by @…`; it covers nothing until then"
    )
    return ExitCode.OK


def _accept(args: argparse.Namespace) -> int:
    from parity.records.layout import replace
    from parity.records.lint import ground_of
    from parity.records.parse import read_raw
    from parity.records.review import accepted
    from parity.root import project_root
    from parity.runfile import shown

    root = project_root()
    loaded = _subject(args, root)
    path = _path_of(root, loaded, args.id)
    ground = ground_of(root, _upstream(args, root), loaded.records, loaded.subject.profile)
    text = accepted(read_raw(root, path), ground, by=args.by, today=_today(), solo=args.solo)
    replace(path, text)
    print(shown(root, path).as_posix())
    return ExitCode.OK


def _lint(args: argparse.Namespace) -> int:
    import msgspec

    from parity.records.lint import ground_of, lint_records
    from parity.records.parse import record_paths
    from parity.root import project_root

    root = project_root()
    upstream = _upstream(args, root)
    loaded = _subject(args, root)
    problems = lint_records(ground_of(root, upstream, loaded.records, loaded.subject.profile))
    number = len(record_paths(root, loaded.records))
    if args.json:
        print(msgspec.json.encode({"records": number, "problems": problems}).decode())
    else:
        for problem in problems:
            print(problem)
    if upstream is None:
        _say(
            "upstream's source is not at hand: anchors in vllm/ were not checked (--upstream DIR, or make setup)"
        )
    _say(f"{number} records, {len(problems)} problems")
    return ExitCode.USAGE if problems else ExitCode.OK


def _list(args: argparse.Namespace) -> int:
    import msgspec

    from parity.records.listing import rows, summary
    from parity.records.parse import load_records
    from parity.root import project_root

    root = project_root()
    records = load_records(root, _subject(args, root).records)
    if args.json:
        print(msgspec.json.encode({"records": [summary(record) for record in records]}).decode())
        return ExitCode.OK
    table = rows(records, _today())
    widths = [max((len(row[column]) for row in table), default=0) for column in range(5)]
    for row in table:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        print("  ".join([*cells, row[5]]))
    if not table:
        _say("there are no records")
    return ExitCode.OK


def _show(args: argparse.Namespace) -> int:
    import msgspec

    from parity.records.listing import find, whole
    from parity.records.parse import load_records, read_raw
    from parity.root import project_root

    root = project_root()
    record = find(load_records(root, _subject(args, root).records), args.id)
    if args.json:
        print(msgspec.json.encode(whole(record)).decode())
    else:
        print(read_raw(root, root / record.path).text, end="")
    return ExitCode.OK


def _run(args: argparse.Namespace) -> tuple[RunFile, str]:
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


def _measured(args: argparse.Namespace, read: RunFile, scenario: str) -> Measured:
    """The finding of a run's scenario that `--finding` picks."""
    from parity.records.draft import choose

    return choose(read.header, read.scenario(scenario), args.finding)


def _subject(args: argparse.Namespace, root: Path, read: RunFile | None = None) -> Loaded:
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


def _flag(args: argparse.Namespace) -> str:
    """The option that names the subject in a command to come; the engine needs none."""
    return "" if args.subject is None else f" --subject {args.subject}"


def _path_of(root: Path, loaded: Loaded, name: str) -> Path:
    from parity.records.listing import find
    from parity.records.parse import load_records

    path = loaded.records / f"{name}.md"
    if path.is_file() and path.resolve().is_relative_to(loaded.records):
        return path
    return root / find(load_records(root, loaded.records), name).path


def _upstream(args: argparse.Namespace, root: Path) -> Path | None:
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


def _add_from(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument(
        "--from",
        dest="source",
        required=required,
        default=None,
        metavar="RUNFILE#SCENARIO",
        help="a finished run file, and a scenario that it played",
    )
    parser.add_argument(
        "--finding",
        type=int,
        default=None,
        metavar="N",
        help="which of its findings, from 1, if there are several",
    )


def _add_subject(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--subject",
        default=None,
        metavar="NAME|FILE",
        help="whose records: a file of subjects/ by name, or any subject's TOML file (default: engine, or the run's)",
    )


def _add_upstream(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--upstream",
        default=None,
        metavar="DIR",
        help="a folder with upstream's vllm/ in it (default: the installed oracle's)",
    )


def _today() -> datetime.date:
    return datetime.datetime.now(tz=datetime.UTC).date()


def _say(text: str) -> None:
    print(text, file=sys.stderr)

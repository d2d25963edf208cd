"""`parity record`: file, bring up to date, accept, lint, list and show the decisions in `records/`."""

from __future__ import annotations

import argparse
import datetime
from typing import TYPE_CHECKING

from parity.cli.deciding import register_deciding
from parity.cli.options import Commands, add_json, verb
from parity.cli.recording import add_subject, flag, path_of, read_source, say, subject_of, upstream_of
from parity.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from parity.records.draft import Measured
    from parity.runlog import RunFile

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
    register_deciding(actions)
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
    add_subject(new)
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
    add_subject(refresh)
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
    add_subject(accept)
    _add_upstream(accept)


def _register_reading(actions: Commands) -> None:
    lint = verb(actions, "lint", "check every record against every rule", "parity record lint", _lint)
    add_subject(lint)
    _add_upstream(lint)
    add_json(lint)
    list_ = verb(actions, "list", "list the records", "parity record list --json", _list)
    add_subject(list_)
    add_json(list_)
    show = verb(actions, "show", "print one record", "parity record show auto-fit/null-block-counted", _show)
    show.add_argument("id", metavar="ID", help="the record, as <area>/<slug>")
    add_subject(show)
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
    read, scenario = read_source(args)
    loaded = subject_of(args, root, read)
    measured = _measured(args, read, scenario)
    anchors = usual_anchors(measured, root, upstream_of(args, root))
    front = draft(measured, by=args.by, today=_today(), anchors=anchors)
    area, _, slug = measured.line.id.partition("/")
    path = loaded.records / area / f"{args.slug or slug.replace('/', '-')}.md"
    create(path, draft_text(front))
    print(shown(root, path).as_posix())
    say(f"write its prose, then `parity record lint{flag(args)}`; it covers nothing until it is accepted")
    return ExitCode.OK


def _refresh(args: argparse.Namespace) -> int:
    from parity.records.layout import replace
    from parity.records.parse import read_raw, to_record
    from parity.records.refresh import reread, take_up, write_anew
    from parity.root import project_root

    root = project_root()
    source = None if args.source is None else read_source(args)
    path = path_of(root, subject_of(args, root, source and source[0]), args.id)
    raw = read_raw(root, path)
    record = to_record(raw)
    if source is None:
        replace(path, reread(raw, record, root, upstream_of(args, root)))
    else:
        write_anew(root, raw, take_up(record, _measured(args, *source)))
        say(
            f"it is proposed again: `parity record accept {record.id}{flag(args)} --by @…` once it is reviewed"
        )
    print(raw.path)
    return ExitCode.OK


def _accept(args: argparse.Namespace) -> int:
    from parity.records.layout import replace
    from parity.records.lint import ground_of
    from parity.records.parse import read_raw
    from parity.records.review import accepted
    from parity.root import project_root
    from parity.runfile import shown

    root = project_root()
    loaded = subject_of(args, root)
    path = path_of(root, loaded, args.id)
    ground = ground_of(root, upstream_of(args, root), loaded.records, loaded.subject.profile)
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
    upstream = upstream_of(args, root)
    loaded = subject_of(args, root)
    problems = lint_records(ground_of(root, upstream, loaded.records, loaded.subject.profile))
    number = len(record_paths(root, loaded.records))
    if args.json:
        print(msgspec.json.encode({"records": number, "problems": problems}).decode())
    else:
        for problem in problems:
            print(problem)
    if upstream is None:
        say(
            "upstream's source is not at hand: anchors in vllm/ were not checked (--upstream DIR, or make setup)"
        )
    say(f"{number} records, {len(problems)} problems")
    return ExitCode.USAGE if problems else ExitCode.OK


def _list(args: argparse.Namespace) -> int:
    import msgspec

    from parity.records.listing import rows, summary
    from parity.records.parse import load_records
    from parity.root import project_root

    root = project_root()
    records = load_records(root, subject_of(args, root).records)
    if args.json:
        print(msgspec.json.encode({"records": [summary(record) for record in records]}).decode())
        return ExitCode.OK
    table = rows(records, _today())
    widths = [max((len(row[column]) for row in table), default=0) for column in range(5)]
    for row in table:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        print("  ".join([*cells, row[5]]))
    if not table:
        say("there are no records")
    return ExitCode.OK


def _show(args: argparse.Namespace) -> int:
    import msgspec

    from parity.records.listing import find, whole
    from parity.records.parse import load_records, read_raw
    from parity.root import project_root

    root = project_root()
    record = find(load_records(root, subject_of(args, root).records), args.id)
    if args.json:
        print(msgspec.json.encode(whole(record)).decode())
    else:
        print(read_raw(root, root / record.path).text, end="")
    return ExitCode.OK


def _measured(args: argparse.Namespace, read: RunFile, scenario: str) -> Measured:
    """The finding of a run's scenario that `--finding` picks."""
    from parity.records.draft import choose

    return choose(read.header, read.scenario(scenario), args.finding)


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


def _add_upstream(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--upstream",
        default=None,
        metavar="DIR",
        help="a folder with upstream's vllm/ in it (default: the installed oracle's)",
    )


def _today() -> datetime.date:
    return datetime.datetime.now(tz=datetime.UTC).date()

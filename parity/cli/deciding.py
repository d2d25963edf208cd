"""The actions of `parity record` on a baseline: a decision about an undecided record, and fewer of them."""

from __future__ import annotations

import argparse

from parity.cli.options import Commands, add_json, day, some_path, verb
from parity.cli.recording import add_subject, flag, path_of, say, subject_of
from parity.errors import ExitCode


def register_deciding(actions: Commands) -> None:
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
    add_subject(decide)
    prune = verb(
        actions,
        "prune",
        "take out of the undecided records what a run shows no more; one that nothing is left of is retired",
        "parity record prune --from run.jsonl --subject toy.toml",
        _prune,
    )
    prune.add_argument(
        "--from",
        dest="source",
        type=some_path,
        required=True,
        metavar="RUN",
        help="a finished run of the whole suite",
    )
    add_subject(prune)
    add_json(prune)


def _decide(args: argparse.Namespace) -> int:
    from parity.records.layout import replace
    from parity.records.parse import read_raw, to_record
    from parity.records.undecided import decided_text
    from parity.root import project_root

    root = project_root()
    path = path_of(root, subject_of(args, root), args.id)
    raw = read_raw(root, path)
    record = to_record(raw)
    replace(path, decided_text(record, args.decision, args.expires))
    print(raw.path)
    say(
        f"write its prose, then `parity record lint{flag(args)}` and"
        f" `parity record accept {record.id}{flag(args)} --by @…`; it covers nothing until then"
    )
    return ExitCode.OK


def _prune(args: argparse.Namespace) -> int:
    import datetime
    import json

    from parity.interrupts import uninterrupted
    from parity.records.parse import load_records, read_raw
    from parity.records.prune import prune
    from parity.records.refresh import write_anew
    from parity.root import project_root
    from parity.runlog import read_run
    from parity.subjects.adopt import check_run
    from parity.suite import load_suite

    root = project_root()
    read = read_run(args.source)
    loaded = subject_of(args, root, read)
    check_run(read, {case.id: case for case in load_suite(root)})
    today = datetime.datetime.now(tz=datetime.UTC).date()
    pruned = list(prune(read, load_records(root, loaded.records), today))
    with uninterrupted():
        for item in pruned:
            write_anew(root, read_raw(root, root / item.record.path), item.front)
    if args.json:
        shown = [
            {"id": item.record.id, "gone": list(item.gone), "retired": item.is_retired} for item in pruned
        ]
        print(json.dumps({"records": shown}))
        return ExitCode.OK
    for item in pruned:
        print(f"{item.record.id}  {len(item.gone)} gone{', retired' if item.is_retired else ''}")
    if not pruned:
        say("every undecided record still shows all that it names")
    return ExitCode.OK

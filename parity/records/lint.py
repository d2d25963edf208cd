"""Every rule over every record: a record that decides something has to say it whole, and say it truly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from parity.errors import RecordError
from parity.levels import FAMILIES
from parity.records.anchors import ANCHOR_RULES
from parity.records.parse import Raw, read_raw, record_paths, to_record
from parity.records.record import EXACT
from parity.records.rules import Fault, FormRule, Ground, Page, Problem, RecordRule, name_of
from parity.records.rules_form import FORM_RULES, wrong_type
from parity.records.rules_front import FRONT_RULES
from parity.records.rules_prose import PROSE_RULES

RECORD_RULES: tuple[RecordRule, ...] = (*FRONT_RULES, *ANCHOR_RULES, *PROSE_RULES)
RULES: tuple[FormRule | RecordRule, ...] = (*FORM_RULES, wrong_type, *RECORD_RULES)


def ground_of(
    root: Path, upstream: Path | None = None, folder: Path | None = None, profile: str = EXACT
) -> Ground:
    """What the records in `folder` (null: the engine's) of a subject that is compared in `profile` are held against."""
    pins = frozenset(path.stem for path in (root / "oracle" / "pins").glob("*.toml"))
    return Ground(root=root, families=FAMILIES, pins=pins, upstream=upstream, folder=folder, profile=profile)


def lint_records(ground: Ground) -> list[Problem]:
    """The problems of all records, in the order of files and lines. Raises RecordError for a misplaced file."""
    problems: list[Problem] = []
    for path in record_paths(ground.root, ground.folder):
        try:
            raw = read_raw(ground.root, path)
        except RecordError as error:
            message = str(error).removeprefix(f"{error.path}:{error.line}: ")
            problems.append(Problem("no-record", str(error.path), error.line or 1, message))
            continue
        problems += lint(raw, ground)
    return problems


def lint(raw: Raw, ground: Ground) -> list[Problem]:
    """One record's problems. A form that is wrong is told alone: the later rules could not read it."""
    problems = [_problem(rule, raw, fault) for rule in FORM_RULES for fault in rule(raw)]
    problems = problems or [_problem(wrong_type, raw, fault) for fault in wrong_type(raw)]
    if not problems:
        problems = [_problem(rule, raw, fault) for rule, fault in _faults(raw, ground)]
    return sorted(problems, key=lambda problem: (problem.path, problem.line, problem.rule))


def _faults(raw: Raw, ground: Ground) -> Iterator[tuple[RecordRule, Fault]]:
    page = Page(raw, to_record(raw), ground)
    for rule in RECORD_RULES:
        for fault in rule(page):
            yield rule, fault


def _problem(rule: FormRule | RecordRule, raw: Raw, fault: Fault) -> Problem:
    return Problem(name_of(rule), fault.path or raw.path, fault.line, fault.message)

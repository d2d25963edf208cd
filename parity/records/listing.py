"""Records as lists and as objects for scripts; and finding one by its id."""

from __future__ import annotations

import datetime
import difflib
from collections.abc import Sequence
from typing import Any

import msgspec

from parity.errors import UsageError
from parity.records.record import Record


def find(records: Sequence[Record], name: str) -> Record:
    """The record with this id. Raises UsageError with the nearest id."""
    known = {record.id: record for record in records}
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else "`parity record list` shows them all"
    raise UsageError(f"there is no record {name}", hint=hint)


def is_solo(record: Record) -> bool:
    """Whether one person proposed and accepted it, which reports show."""
    return record.front.decided is not None and record.front.decided.solo


def rows(records: Sequence[Record], today: datetime.date) -> list[tuple[str, ...]]:
    """One row a record: id, state, decision, attribution, remarks, title."""
    return [
        (
            record.id,
            record.front.state,
            record.front.decision or record.front.kind,
            record.front.attribution or "-",
            ", ".join(_remarks(record, today)) or "-",
            record.front.title,
        )
        for record in records
    ]


def summary(record: Record) -> dict[str, Any]:
    """A record in `record list --json`."""
    front = record.front
    return {
        "id": record.id,
        "title": front.title,
        "kind": front.kind,
        "state": front.state,
        "decision": front.decision,
        "attribution": front.attribution,
        "fingerprints": list(front.fingerprints),
        "scenarios": list(record.scenarios),
        "policy": front.policy,
        "owner": front.owner,
        "solo": is_solo(record),
        "expires": None if front.expires is None else front.expires.isoformat(),
    }


def whole(record: Record) -> dict[str, Any]:
    """A record in `record show --json`: the front matter, and the prose by section."""
    return {
        "id": record.id,
        "path": record.path,
        "front": msgspec.to_builtins(record.front),
        "sections": {section.title: section.body.strip() for section in record.sections},
    }


def _remarks(record: Record, today: datetime.date) -> list[str]:
    remarks = ["solo"] if is_solo(record) else []
    expires = record.front.expires
    if expires is not None:
        remarks.append(f"expired {expires}" if expires < today else f"until {expires}")
    return remarks

"""Accepting a record: the state and the decider change, every other byte stays as it was reviewed."""

from __future__ import annotations

import datetime

from parity.errors import RecordError
from parity.records.lint import lint
from parity.records.parse import Raw, parse_text
from parity.records.rules import Ground


def accepted(raw: Raw, ground: Ground, *, by: str, today: datetime.date, solo: bool) -> str:
    """The accepted record's text.

    Raises RecordError where the record is not proposed, or where the lint finds anything in what it would be.
    """
    state = raw.values.get("state")
    if state != "proposed":
        raise RecordError(
            raw.path, f"state is {state!r}: only a proposed record can be accepted", line=raw.line("state")
        )
    if ("decided",) not in raw.spans:
        raise RecordError(raw.path, "has no key 'decided'", line=1, hint="add `decided: null`")
    mark = ", solo: true" if solo else ""
    changes = {"state": "accepted", "decided": f'{{on: {today.isoformat()}, by: "{by}"{mark}}}'}
    text = raw.text
    for key, value in sorted(changes.items(), key=lambda item: raw.spans[(item[0],)], reverse=True):
        start, stop = raw.spans[(key,)]
        space = " " if start == stop else ""
        text = text[:start] + space + value + text[stop:]
    problems = lint(parse_text(text, raw.path, raw.companion), ground)
    if problems:
        first, more = problems[0], len(problems) - 1
        rest = f" (and {more} more: `parity record lint`)" if more else ""
        raise RecordError(first.path, f"{first.message} [{first.rule}]{rest}", line=first.line)
    return text

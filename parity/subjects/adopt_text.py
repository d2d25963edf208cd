"""What a record of a baseline says to people: that nobody decided, what was observed, and what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from parity.records.layout import companion_text, whole_text
from parity.records.parse import COMPANION
from parity.report.progress import counted
from parity.subjects.adopt import Adoption, Group

MAX_VALUE = 80  # characters of a value in a sentence


def files(adoption: Adoption, folder: Path, subject: str) -> dict[Path, str]:
    """Every file of the baseline with its text; `subject` is how a command names the subject."""
    found: dict[Path, str] = {}
    for group in adoption.groups:
        record = group.record
        found[folder / f"{record.id}.md"] = whole_text(record.front, prose(group, subject))
        beside = companion_text(record.id, record.front)
        if beside is not None:
            found[folder / f"{record.id}{COMPANION}"] = beside
    return found


def prose(group: Group, subject: str) -> Mapping[str, str]:
    """The text of each section."""
    front, id_ = group.record.front, group.record.id
    first = front.exemplars[0]
    look = f"`parity show {first.scenario} --subject {subject}`"
    return {
        "Decision": f"None yet. On {front.proposed.on} `parity adopt` took this finding into the baseline of suite"
        f" {front.suite}, so that it is known, dated and owned by {front.owner}. Nobody has judged it.",
        "Why": f"Not known yet: nobody has read either side's source for it. {_how_many(group)}",
        "What a user notices": "Not known yet. Observed in the first of them: at"
        f" `{first.at}` {_values(first.oracle, first.subject)}. {look} prints both sides.",
        "Reconsider when": f"Before {front.expires}; from the next day on every check is red until somebody decides. Look with {look}."
        f" Then mend the subject, or make the draft of a decision with `parity record decide {id_} DECISION --subject {subject}`.",
    }


def _how_many(group: Group) -> str:
    front = group.record.front
    number = counted(len(group.scenarios), "scenario")
    shape = f"`{front.fingerprints[0]}`"
    if front.attribution == "mirrored":
        return f"Both sides break the same promise in the shape {shape}; {number} showed it on that day."
    return f"The sides differed in the shape {shape} in {number} on that day, all named by this record."


def _values(oracle: object, subject: object) -> str:
    if oracle == subject:
        return f"both sides have `{_value(oracle)}`"
    return f"the oracle has `{_value(oracle)}` and the subject `{_value(subject)}`"


def _value(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False).replace("`", "'")
    return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 1] + "…"

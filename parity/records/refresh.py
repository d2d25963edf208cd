"""Brings a record up to date with what a run measured, or with the source that it cites.

What was decided is decided about what was measured then: a record that takes up a new measurement is
proposed again, and its prose is kept byte for byte.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from parity.errors import RecordError, UsageError
from parity.records import observed
from parity.records.anchors import folder_of, source_digest
from parity.records.draft import Measured
from parity.records.layout import companion_text, front_text, replace
from parity.records.parse import Raw
from parity.records.record import MAX_EXEMPLARS, Front, Record, fingerprint_of


def take_up(record: Record, measured: Measured) -> Front:
    """The record's front matter with the measured finding added, or in place of what that scenario had.

    A run under a policy goes to `diverging`. Raises UsageError where the finding is none of this record's kind.
    """
    if record.front.kind == "falsified":
        raise UsageError(f"{record.id} is a falsified hypothesis: it has no findings")
    made, now = record.front.profile, measured.header.subject.profile
    if made != now:
        raise UsageError(
            f"{record.id} was measured in the profile {made}, and this run in {now}: they are never mixed",
            hint="file a new record in its place",
        )
    front = _take_diverging(record, measured) if measured.policy else _take_exemplar(record, measured)
    shown = {entry.fingerprint for entry in front.diverging if front.attribution != "mirrored"}
    shown |= {fingerprint_of(record.front, entry) for entry in front.exemplars}
    kept = [text for text in front.fingerprints if text in shown]
    kept += sorted(shown - set(kept))
    return msgspec.structs.replace(front, fingerprints=kept, state="proposed", decided=None)


def rewritten(raw: Raw, front: Front) -> str:
    """The record's text with this front matter and its generated part; the rest is kept."""
    if observed.extract(raw.text) is None:
        raise RecordError(raw.path, "the markers of the generated part are not there, once each")
    rows = raw.text.splitlines(keepends=True)
    end = next(index for index, row in enumerate(rows[1:], start=1) if row.strip() == "---")
    return observed.replace(rows[0] + front_text(front) + "".join(rows[end:]), front)


def write_anew(root: Path, raw: Raw, front: Front) -> None:
    """Puts a record with this front matter, and the findings beside it, in the place of the one that was read."""
    text, beside = rewritten(raw, front), companion_text(raw.id, front)
    if beside is not None:
        replace(root / raw.companion_path, beside)
    elif raw.companion is not None:
        (root / raw.companion_path).unlink()
    replace(root / raw.path, text)


def reread(raw: Raw, record: Record, root: Path, upstream: Path | None) -> str:
    """The record's text with the digests of its anchors, and its generated part, made anew.

    Raises RecordError where a cited place is gone: then a person has to say what the record is about.
    """
    text = raw.text
    for index in reversed(range(len(record.front.anchors))):
        anchor = record.front.anchors[index]
        folder = folder_of(anchor, root, upstream)
        span = raw.spans.get(("anchors", index, "digest"))
        if folder is None or span is None:
            continue
        try:
            digest = source_digest(folder, anchor)
        except LookupError as error:
            line = raw.line("anchors", index)
            raise RecordError(raw.path, f"anchor {anchor.at}: {error.args[0]}", line=line) from None
        if digest != anchor.digest:
            text = text[: span[0]] + f'"{digest}"' + text[span[1] :]
    if observed.extract(text) is None:
        raise RecordError(raw.path, "the markers of the generated part are not there, once each")
    return observed.replace(text, record.front)


def _take_exemplar(record: Record, measured: Measured) -> Front:
    front, finding, name = record.front, measured.finding, measured.line.id
    if finding.attribution != front.attribution:
        raise UsageError(
            f"{record.id} decides findings that are {front.attribution}; this one is {finding.attribution}"
        )
    played = {item.finding.fingerprint for item in measured.line.findings}
    kept = [
        msgspec.structs.replace(entry, fingerprint=fingerprint_of(front, entry))
        for entry in front.exemplars
        if entry.scenario != name or fingerprint_of(front, entry) in played - {finding.fingerprint}
    ]
    replaced = [entry for entry in front.exemplars if entry.scenario == name]
    before = next((entry for entry in replaced if fingerprint_of(front, entry) == finding.fingerprint), None)
    exemplars = [*kept, measured.exemplar(before)]
    same = sum(fingerprint_of(front, entry) == finding.fingerprint for entry in exemplars)
    if front.attribution == "mirrored" and same > MAX_EXEMPLARS:
        raise UsageError(
            f"{record.id} has {MAX_EXEMPLARS} exemplars of {finding.fingerprint} already",
            hint="a mirrored finding is covered in every scenario that shows it; no more are needed",
        )
    return msgspec.structs.replace(front, exemplars=exemplars)


def _take_diverging(record: Record, measured: Measured) -> Front:
    front, name = record.front, measured.line.id
    if front.policy not in (None, measured.policy):
        raise UsageError(f"{record.id} is about {front.policy}; the run was made under {measured.policy}")
    if measured.finding.attribution == "mirrored":
        raise UsageError(f"{name} is mirrored under {measured.policy} as well: nothing diverges there")
    played = {item.finding.fingerprint for item in measured.line.findings}
    kept = [
        entry
        for entry in front.diverging
        if entry.scenario != name or entry.fingerprint in played - {measured.finding.fingerprint}
    ]
    return msgspec.structs.replace(front, policy=measured.policy, diverging=[*kept, measured.diverging()])

"""A found file, played again: whether it still shows, is decided by a record now, or could not be told."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from parity.errors import ExitCode
from parity.finding import Judged
from parity.fuzz.examine import finding_of, trouble_of
from parity.fuzz.found import Found
from parity.fuzz.known import Known

MAX_VALUE = 200  # characters of a value in a line


class Replayed(StrEnum):
    """What a replay says."""

    FIXED = "FIXED"
    FAILED = "FAILED"
    VOID = "VOID"


class Replay(msgspec.Struct, frozen=True):
    """One file's replay. `shows` are the fingerprints that its scenario has now; `record` is what covers the finding.

    `new` are those of `shows` that are another finding than the file's, and that no record covers.
    """

    file: str
    fingerprint: str
    verdict: Replayed
    detail: str
    record: str | None = None
    shows: tuple[str, ...] = ()
    new: tuple[str, ...] = ()


def replay(file: str, found: Found, judged: Judged, known: Known) -> Replay:
    """What one play of the file's scenario says of it.

    A side that failed is what some files keep: the same failure there is FAILED, any other is VOID.
    """
    trouble = trouble_of(judged)
    if trouble is not None:
        is_kept = trouble == found.fingerprint
        verdict = Replayed.FAILED if is_kept else Replayed.VOID
        return Replay(
            file, found.fingerprint, verdict, judged.failure or judged.flaky or trouble, None, (trouble,)
        )
    shows = tuple(dict.fromkeys(finding.fingerprint for finding in judged.findings))
    new = tuple(
        dict.fromkeys(
            finding.fingerprint
            for finding in judged.findings
            if finding.fingerprint != found.fingerprint and known.record_of(finding) is None
        )
    )
    finding = finding_of(judged, found.fingerprint)
    if finding is None:
        detail = f"{found.fingerprint} no longer shows{_told(shows, new)}"
        return Replay(file, found.fingerprint, Replayed.FIXED, detail, None, shows, new)
    record = known.record_of(finding)
    if record is not None:
        detail = f"{found.fingerprint} still shows, and the record {record} covers it{_told((), new)}"
        return Replay(file, found.fingerprint, Replayed.FIXED, detail, record, shows, new)
    values = f"oracle {_json(finding.oracle)}, subject {_json(finding.subject)}"
    detail = f"{found.fingerprint} still shows at {finding.at}: {values}"
    return Replay(file, found.fingerprint, Replayed.FAILED, detail, None, shows, new)


def exit_code(replays: Iterable[Replay]) -> ExitCode:
    """2 where any side failed, 1 where anything still shows or is new, else 0."""
    replays = tuple(replays)
    verdicts = {one.verdict for one in replays}
    if Replayed.VOID in verdicts or not verdicts:
        return ExitCode.INCONCLUSIVE
    is_open = Replayed.FAILED in verdicts or any(one.new for one in replays)
    return ExitCode.FINDINGS if is_open else ExitCode.OK


def _told(shows: tuple[str, ...], new: tuple[str, ...]) -> str:
    """What else the scenario shows: what no record covers is NEW, the rest is on record."""
    known = [fingerprint for fingerprint in shows if fingerprint not in new]
    said = "".join(f", NEW {fingerprint} does" for fingerprint in new)
    return said + "".join(f", {fingerprint} does and is on record" for fingerprint in known)


def _json(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 1]}…"

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

    `new` are those of `shows` that are another finding than the file's, and that no record covers. `pin` is the version
    that it was found against, whichever it was played on.
    """

    file: str
    fingerprint: str
    pin: str
    verdict: Replayed
    detail: str
    record: str | None = None
    shows: tuple[str, ...] = ()
    new: tuple[str, ...] = ()


def replay(file: str, found: Found, judged: Judged, known: Known, version: str) -> Replay:
    """What one play of the file's scenario on upstream's `version` says of it.

    A side that failed is what some files keep: the same failure there is FAILED, any other is VOID.
    """
    trouble = trouble_of(judged)
    if trouble is not None:
        verdict = Replayed.FAILED if trouble == found.fingerprint else Replayed.VOID
        told = Replay(
            file=file,
            fingerprint=found.fingerprint,
            pin=found.pin,
            verdict=verdict,
            detail=judged.failure or judged.flaky or trouble,
            shows=(trouble,),
        )
    else:
        told = _told(file, found, judged, known)
    if version == found.pin:
        return told
    detail = f"{told.detail} (found on vLLM {found.pin}, played on {version})"
    return msgspec.structs.replace(told, detail=detail)


def _told(file: str, found: Found, judged: Judged, known: Known) -> Replay:
    """Of a scenario that both sides played to its end."""
    others = [one for one in judged.findings if one.fingerprint != found.fingerprint]
    new = tuple(dict.fromkeys(one.fingerprint for one in others if known.record_of(one) is None))
    finding = finding_of(judged, found.fingerprint)
    record = None if finding is None else known.record_of(finding)
    verdict, aside = Replayed.FIXED, [f"NEW {fingerprint} shows" for fingerprint in new]
    if finding is None:
        said = f"{found.fingerprint} no longer shows"
        on_record = dict.fromkeys(one.fingerprint for one in others if one.fingerprint not in new)
        aside += [f"{fingerprint} shows and is on record" for fingerprint in on_record]
    elif record is not None:
        said = f"{found.fingerprint} still shows, and the record {record} covers it"
    else:
        verdict = Replayed.FAILED
        values = f"oracle {_json(finding.oracle)}, subject {_json(finding.subject)}"
        said = f"{found.fingerprint} still shows at {finding.at}: {values}"
    return Replay(
        file=file,
        fingerprint=found.fingerprint,
        pin=found.pin,
        verdict=verdict,
        detail=", ".join([said, *aside]),
        record=record,
        shows=tuple(dict.fromkeys(one.fingerprint for one in judged.findings)),
        new=new,
    )


def exit_code(replays: Iterable[Replay]) -> ExitCode:
    """2 where any side failed, 1 where anything still shows or is new, else 0."""
    replays = tuple(replays)
    verdicts = {one.verdict for one in replays}
    if Replayed.VOID in verdicts or not verdicts:
        return ExitCode.INCONCLUSIVE
    is_open = Replayed.FAILED in verdicts or any(one.new for one in replays)
    return ExitCode.FINDINGS if is_open else ExitCode.OK


def _json(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 1]}…"

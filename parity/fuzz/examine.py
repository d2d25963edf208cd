"""One document, played once on both sides and judged: the very comparison and properties of `parity run`."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from parity.finding import Finding, Judged
from parity.fuzz.document import Document, case_from
from parity.judge import judge
from parity.observation import Observation
from parity.play import play_case
from parity.scenario import Case
from parity.side import Side


class Examined(msgspec.Struct, frozen=True):
    """What came of one document. The observations are null where a side failed."""

    case: Case
    judged: Judged
    oracle: Observation | None
    subject: Observation | None

    def shows(self, fingerprint: str) -> bool:
        """Whether this is one of the findings, or how the play failed (`trouble`)."""
        trouble = trouble_of(self.judged)
        if trouble is not None:
            return trouble == fingerprint
        return any(finding.fingerprint == fingerprint for finding in self.judged.findings)


class Examiner:
    """Plays documents on two sides. `mirrors` says whether the subject claims to do as upstream does.

    `waited` are the seconds of wall time that were spent on plays, each side's own seconds are in `oracle_seconds` and
    `subject_seconds`, and `plays` counts documents.
    """

    def __init__(self, oracle: Side[Any], subject: Side[Any], *, mirrors: bool) -> None:
        self._oracle = oracle
        self._subject = subject
        self._mirrors = mirrors
        self.plays = 0
        self.waited = 0.0
        self.oracle_seconds = 0.0
        self.subject_seconds = 0.0

    def examine(self, document: Document, name: str = "case") -> Judged:
        """The findings of one document. Raises Fault for a document that is no scenario."""
        return self.look(document, name).judged

    def look(self, document: Document, name: str = "case") -> Examined:
        """The findings of one document, and what they were found in. Raises Fault for a document that is no scenario."""
        return self.play(case_from(document, name))

    def play(self, case: Case) -> Examined:
        """The same of a case that is made already."""
        began = time.perf_counter()
        oracle, subject = play_case(case, self._oracle, self._subject, times=1)
        self.waited += time.perf_counter() - began
        self.plays += 1
        self.oracle_seconds += oracle.seconds
        self.subject_seconds += subject.seconds
        return Examined(
            case=case,
            judged=judge(case, oracle, subject, mirrors=self._mirrors),
            oracle=oracle.observations[0] if oracle.observations else None,
            subject=subject.observations[0] if subject.observations else None,
        )


def trouble_of(judged: Judged) -> str | None:
    """`void:oracle`, `void:subject`, `flaky:…`, or null: what stands in the place of a fingerprint where none can be."""
    for kind, text in (("void", judged.failure), ("flaky", judged.flaky)):
        if text is not None:
            return f"{kind}:{'oracle' if text.startswith('the oracle') else 'subject'}"
    return None


def finding_of(judged: Judged, fingerprint: str) -> Finding | None:
    """The first finding with this fingerprint."""
    return next((finding for finding in judged.findings if finding.fingerprint == fingerprint), None)

"""One document, played once on both sides and judged: the very comparison and properties of `parity run`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from parity.finding import Finding, Judged
from parity.fuzz.document import Document, case_from
from parity.judge import judge
from parity.observation import Observation
from parity.play import play_case
from parity.scenario import Case
from parity.side import Side

Pair = tuple[Side[Any], Side[Any]]


def always(oracle: Side[Any], subject: Side[Any]) -> Callable[[Case], Pair]:
    """These two, whatever is to be played."""
    return lambda _: (oracle, subject)


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
    """Plays documents on the oracle and the subject that `sides` has for each. `mirrors` says whether the subject claims to do as upstream does.

    `waited` are the seconds of wall time that were spent on plays, each side's own seconds are in `oracle_seconds` and
    `subject_seconds`, and `plays` counts documents. `heard` is told what came of each.
    """

    def __init__(
        self,
        sides: Callable[[Case], Pair],
        *,
        mirrors: bool,
        heard: Callable[[Examined], None] | None = None,
    ) -> None:
        self._sides = sides
        self._mirrors = mirrors
        self._heard = heard
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

    def play(self, case: Case, times: int = 1) -> Examined:
        """The same of a case that is made already, played so often."""
        began = time.perf_counter()
        oracle, subject = play_case(case, *self._sides(case), times=times)
        self.waited += time.perf_counter() - began
        self.plays += 1
        self.oracle_seconds += oracle.seconds
        self.subject_seconds += subject.seconds
        examined = Examined(
            case=case,
            judged=judge(case, oracle, subject, mirrors=self._mirrors),
            oracle=oracle.observations[0] if oracle.observations else None,
            subject=subject.observations[0] if subject.observations else None,
        )
        if self._heard is not None:
            self._heard(examined)
        return examined


def trouble_of(judged: Judged) -> str | None:
    """`void:oracle`, `void:subject`, `flaky:…`, or null: what stands in the place of a fingerprint where none can be."""
    for kind, text in (("void", judged.failure), ("flaky", judged.flaky)):
        if text is not None:
            return f"{kind}:{'oracle' if text.startswith('the oracle') else 'subject'}"
    return None


def is_of_a_process(judged: Judged) -> bool:
    """Whether a side failed that is a process, and may not be started again: all but the engine at the levels without servers."""
    return judged.failure is not None and (judged.level == "serve" or trouble_of(judged) == "void:oracle")


def finding_of(judged: Judged, fingerprint: str) -> Finding | None:
    """The first finding with this fingerprint."""
    return next((finding for finding in judged.findings if finding.fingerprint == fingerprint), None)

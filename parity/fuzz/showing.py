"""Whether documents show one finding: what is asked of each smaller one while a finding is shrunk live."""

from __future__ import annotations

from collections.abc import Callable

from parity.finding import Judged
from parity.fuzz.document import Document, case_from
from parity.fuzz.examine import Examined
from parity.scenario import Case


def why_kept_whole(fingerprint: str, document: Document) -> str | None:
    """Why such a find is not shrunk; null where it can be."""
    if fingerprint.startswith("flaky:"):
        return "a side that disagrees with itself shows it in some plays only"
    if fingerprint == "void:oracle" or (fingerprint == "void:subject" and document["level"] == "serve"):
        return "each try would cost a start of both sides"
    return None


class Showing:
    """Documents that ask the same are played once. `first` is the play that showed the finding to begin with."""

    def __init__(self, fingerprint: str, first: Examined, play: Callable[[Case], Examined]) -> None:
        self.fingerprint = fingerprint
        self._play = play
        self._shown: dict[str, Judged | None] = {first.case.hash: first.judged}

    def keeps(self, document: Document) -> bool:
        """Whether this document shows it as well."""
        case = case_from(document)
        asked = case.hash
        if asked not in self._shown:
            examined = self._play(case)
            self._shown[asked] = examined.judged if examined.shows(self.fingerprint) else None
        return self._shown[asked] is not None

    def judged(self, document: Document) -> Judged:
        """What the play of a document that was kept has shown."""
        judged = self._shown[case_from(document).hash]
        assert judged is not None, "a document that was kept"
        return judged

"""Both sides, live, for a handful of documents: what the verbs play that look at one finding again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from parity.ask import Ask
from parity.fuzz.document import Document, case_from
from parity.fuzz.examine import Examined
from parity.fuzz.fresh_sides import FreshSides
from parity.fuzz.known import Known, known_from
from parity.oracle_side import find_pin, measure_oracle
from parity.records.parse import load_records
from parity.report.progress import RunProgress
from parity.scenario import Case
from parity.sides import Sides

Asked = tuple[
    Document, Mapping[str, str]
]  # a document, and the choices of the engine that it is played under


class Live:
    """Sides that are ready for these documents and for smaller ones of their kind; `close` ends every process.

    Raises what starting them raises: OracleError, InconclusiveError, UsageError.
    """

    def __init__(self, root: Path, pin: str | None, asked: Sequence[Asked], progress: RunProgress) -> None:
        found = find_pin(root, pin)
        measured = measure_oracle(root, found)
        self.version = measured.version
        self._records = load_records(root)
        self._sides = FreshSides(
            lambda: Sides(Ask(root=root, pin=pin), found, measured, progress),
            [(case_from(document), policies) for document, policies in asked],
        )

    def play(self, case: Case, policies: Mapping[str, str], times: int = 1) -> Examined:
        """So many plays of both sides, judged."""
        return self._sides.examiner(policies).play(case, times)

    def known(self, policies: Mapping[str, str]) -> Known:
        """What accepted records decide of findings under these choices."""
        return known_from(self._records, policies)

    def close(self) -> None:
        self._sides.close()

"""The subjects of one run: whose answers are held against whose, through which lens, under whose records."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path

import msgspec

from parity.ask import Ask
from parity.errors import InconclusiveError, UsageError
from parity.finding import NotCompared
from parity.records.parse import load_records, records_digest
from parity.records.record import Record
from parity.report.progress import counted
from parity.runlog import Held
from parity.scenario import Case
from parity.subjects.choice import check_sight
from parity.subjects.lens import Lens, both, lens_over
from parity.subjects.subject import DEFAULT, Loaded, find_subject, load_subject
from parity.suite import is_newer

MAX_REASONS = 3


class HeldSubjects(msgspec.Struct, frozen=True):
    """`subject` is held against the oracle, or against the subject `against`.

    Records speak of a subject and upstream at the pin, so none applies between two subjects, and neither of them
    promised the other anything.
    """

    subject: Loaded
    against: Loaded | None = None

    @property
    def all(self) -> list[Loaded]:
        return [self.subject] if self.against is None else [self.subject, self.against]

    @property
    def promises_parity(self) -> bool:
        return self.against is None and self.subject.subject.mirrors is not None

    def check(self, cases: Sequence[Case], others: Sequence[NotCompared]) -> None:
        """Raises InconclusiveError where too little is seen of one of these, or none is left but `others`."""
        if not cases:
            reasons = dict.fromkeys(f"{item.why}: {', '.join(item.missing)}" for item in others)
            raise InconclusiveError(
                f"nothing was examined, of {counted(len(others), 'scenario')}: {'; '.join(list(reasons)[:MAX_REASONS])}",
                hint=f"see what {self.subject.subject.name} claims in {self.subject.path}",
            )
        levels = list(dict.fromkeys(case.scenario.level for case in cases))
        for loaded in self.all:
            check_sight(loaded.subject, levels)

    def lens(self, case: Case) -> Lens:
        """What both sides are seen through: what any of the subjects hides is hidden, the coarser profile counts."""
        level = case.scenario.level
        return reduce(
            both, (lens_over(item.subject.observes, item.subject.profile, level) for item in self.all)
        )

    def is_ahead(self, case: Case) -> bool:
        """Whether the case is newer than the suite that the subject answers for."""
        return is_newer(case, self.subject.subject.suite)

    def load_records(self, root: Path) -> tuple[Record, ...]:
        return () if self.against else load_records(root, self.subject.records)

    def records_digest(self, root: Path) -> str:
        return "none" if self.against else records_digest(root, self.subject.records)

    def line(self, version: str | None) -> Held:
        """What a run's header says of the subject."""
        return _line(self.subject, version)

    def line_against(self) -> Held | None:
        return None if self.against is None else _line(self.against, None)


def held_by(ask: Ask) -> HeldSubjects:
    """The subjects that are asked for, read. Raises UsageError."""
    subject = load_subject(find_subject(ask.root, ask.subject or DEFAULT))
    if ask.against is None:
        return HeldSubjects(subject)
    against = load_subject(find_subject(ask.root, ask.against))
    if against.subject.name == subject.subject.name:
        raise UsageError(f"both subjects are called {subject.subject.name}", hint="name two different ones")
    return HeldSubjects(subject, against)


def _line(loaded: Loaded, version: str | None) -> Held:
    subject = loaded.subject
    return Held(
        name=subject.name,
        digest=loaded.digest,
        doors=(*subject.door.stepping, *subject.door.serving),
        mirrors=subject.mirrors,
        profile=subject.profile,
        observes=subject.observes,
        suite=subject.suite,
        version=version,
    )

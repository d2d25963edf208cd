"""What a subject has once shown it goes on showing, and what is undecided only becomes less.

Pure: a `Standing` is what the subject's file and its records said at one time, and two of them are compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from parity.report.progress import counted
from parity.scenario import Level
from parity.subjects.capabilities import CAPABILITIES
from parity.subjects.fields import FIELDS, unobserved
from parity.subjects.profiles import PROFILES
from parity.subjects.subject import Subject
from parity.suite import version_of


class Standing(msgspec.Struct, frozen=True):
    """A subject at one time.

    `undecided` has an entry an undecided record, the suite of its baseline or null; it is null where there were no
    records at all, so that their number begins with the first.
    """

    subject: Subject
    undecided: tuple[str | None, ...] | None


class Ratchet(msgspec.Struct, frozen=True):
    """What came of holding the present against the past: `red` lines, and `note` where there was no past to hold against."""

    red: tuple[str, ...] = ()
    note: str | None = None

    @property
    def lines(self) -> list[str]:
        return [f"ratchet: {line}" for line in (*self.red, *([] if self.note is None else [self.note]))]


def compare(before: Standing, now: Standing, base: str) -> Ratchet:
    """What is red now; `base` names the time of `before`."""
    lost = [f"{what} was there at {base}, and is gone" for what in _lost(before.subject, now.subject)]
    return Ratchet((*lost, *_coarser(before.subject, now.subject, base), *_risen(before, now, base)))


def _lost(before: Subject, now: Subject) -> Iterator[str]:
    """What was shown and is shown no more, as far as this version of the harness knows it."""
    could, can = _capabilities(before), _capabilities(now)
    yield from (f"capability {name}" for name in CAPABILITIES if name in could and name not in can)
    for level in before.levels:
        if level not in now.levels:
            yield f"level {level}"
            continue
        gone = set(_observed(before, level)) - set(_observed(now, level))
        yield from (f"field {name} of level {level}" for name in FIELDS[level] if name in gone)


def _capabilities(subject: Subject) -> Collection[str]:
    """Those that it claims itself; what follows from its profile goes with that."""
    return CAPABILITIES if subject.capabilities == "all" else subject.capabilities


def _observed(subject: Subject, level: Level) -> list[str]:
    hidden = unobserved(subject.observes, level)
    return [name for name in FIELDS[level] if name not in hidden]


def _coarser(before: Subject, now: Subject, base: str) -> Iterator[str]:
    if PROFILES.index(now.profile) > PROFILES.index(before.profile):
        yield f"profile {now.profile} is coarser than {before.profile}, which it was at {base}"


def _risen(before: Standing, now: Standing, base: str) -> Iterator[str]:
    """More undecided records than there were, but for those of a suite that the subject answers for only now."""
    held = [suite for suite in now.undecided or () if not _is_newer(suite, before.subject, now.subject)]
    if before.undecided is None or len(held) <= len(before.undecided):
        return
    told = f"{counted(len(held), 'undecided record')}, {len(before.undecided)} at {base}: their number may only fall"
    ahead = sum(_is_ahead(suite, now.subject) for suite in held)
    if ahead:
        told += (
            f" (of {ahead} the suite is newer than {now.subject.suite}: raise `suite` in the subject's file)"
        )
    yield told


def _is_newer(suite: str | None, before: Subject, now: Subject) -> bool:
    if suite is None or _is_ahead(suite, now):
        return False
    return version_of(suite) > version_of(before.suite)


def _is_ahead(suite: str | None, now: Subject) -> bool:
    return suite is not None and version_of(suite) > version_of(now.suite)

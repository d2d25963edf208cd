"""One finding shrunk live: which it is, that it shows at all, and the file that comes of it, interrupted or not."""

from __future__ import annotations

import msgspec

from parity.errors import InconclusiveError, UsageError
from parity.finding import Judged, Verdict
from parity.fuzz.attempts import Progress
from parity.fuzz.document import Document, case_from
from parity.fuzz.examine import Examined, trouble_of
from parity.fuzz.found import Found, again
from parity.fuzz.live import Live
from parity.fuzz.showing import Showing, why_kept_whole
from parity.fuzz.shrink import Shrunk, shrink
from parity.fuzz.source import Given

_GONE = (Verdict.STALE, Verdict.COVERED, Verdict.MATCH)


class Result(msgspec.Struct, frozen=True):
    """What came out, and the document that it began with."""

    found: Found
    shrunk: Shrunk
    before: Document


class Shrinking:
    """The finding `fingerprint` of what was given; null: the file's, else the worst that no record covers.

    `run` raises UsageError where there is none of them or it cannot be shrunk, InconclusiveError where it does not show.
    """

    def __init__(self, live: Live, source: Given, fingerprint: str | None) -> None:
        self._live = live
        self._source = source
        self._fingerprint = fingerprint or _wanted(source)
        self._best: tuple[Document, int] = (source.document, 0)

    def run(self, attempts: int, seconds: float | None, progress: Progress) -> Result:
        """Shrink it. Ctrl-C ends the search only: what it had is the result."""
        before = self._source.document
        showing = self._showing()

        def watch(best: Document, tried: int) -> None:
            self._best = best, tried
            progress(best, tried)

        try:
            shrunk = shrink(before, showing.keeps, attempts=attempts, seconds=seconds, progress=watch)
        except KeyboardInterrupt:
            shrunk = Shrunk(*self._best, "interrupted")
        return Result(self._found(shrunk, showing), shrunk, before)

    def _showing(self) -> Showing:
        """What is to be kept, after the play that shows it to begin with."""
        source = self._source
        _check_shrinkable(source, self._fingerprint)
        first = self._live.play(case_from(source.document), source.policies)
        wanted = self._fingerprint or _uncovered(self._live, source, first)
        _check_shrinkable(source, wanted)
        if not first.shows(wanted):
            shown = " and ".join(_shown(first.judged)) or "nothing"
            raise InconclusiveError(
                f"{source.name} does not show {wanted}: it shows {shown}",
                hint="name what it shows with --fingerprint, or take it as fixed",
            )
        return Showing(wanted, first, lambda case: self._live.play(case, source.policies))

    def _found(self, shrunk: Shrunk, showing: Showing) -> Found:
        source = self._source.found
        blank = Found(
            fingerprint=showing.fingerprint,
            shape="",
            attribution=None,
            property=None,
            at="",
            oracle=None,
            subject=None,
            pin=self._live.version,
            scenario=shrunk.document,
            policies=self._source.policies,
        )
        if source is not None:
            blank = msgspec.structs.replace(blank, seed=source.seed, unit=source.unit, ordinal=source.ordinal)
        before = 0 if source is None or source.attempts is None else source.attempts
        return again(blank, showing.judged(shrunk.document), shrunk.document, before + shrunk.attempts)


def _check_shrinkable(source: Given, fingerprint: str | None) -> None:
    why = None if fingerprint is None else why_kept_whole(fingerprint, source.document)
    if why is not None:
        raise UsageError(f"{fingerprint} of {source.name} is not shrunk: {why}", hint="keep it as it is")


def _wanted(source: Given) -> str | None:
    """The fingerprint of a found file, or the worst of a run that is not covered."""
    if source.found is not None:
        return source.found.fingerprint
    left = [decided for decided in source.decided if decided.verdict not in _GONE]
    left.sort(key=lambda decided: decided.verdict.severity)
    return left[0].finding.fingerprint if left else None


def _uncovered(live: Live, source: Given, first: Examined) -> str:
    """What the play shows and no record covers."""
    shown = _shown(first.judged)
    if not shown:
        raise InconclusiveError(f"{source.name} shows no finding", hint="there is nothing to shrink")
    known = live.known(source.policies)
    covered = {finding.fingerprint for finding in first.judged.findings if known.record_of(finding)}
    left = [fingerprint for fingerprint in shown if fingerprint not in covered]
    if not left:
        raise UsageError(
            f"records cover all that {source.name} shows", hint=f"shrink it with --fingerprint {shown[0]}"
        )
    return left[0]


def _shown(judged: Judged) -> list[str]:
    trouble = trouble_of(judged)
    return [trouble] if trouble is not None else [finding.fingerprint for finding in judged.findings]

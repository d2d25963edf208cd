"""A rate is derived from a run in which every request completed, or it is not derived at all.

A benchmark that silently loses requests looks fast or slow for a reason that has nothing to do with speed. The
precondition belongs to the act of deriving a number, so every rate that the project prints comes through here.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class IncompleteRunError(Exception):
    """A run that no rate may be derived from; the message counts what is missing and names the first of it."""


class RequestRun(msgspec.Struct, frozen=True):
    """How one request of a run ended: `expected` and `generated` in tokens, null expected where EOS may come first."""

    id: str
    finish_reason: str | None
    generated: int
    expected: int | None = None
    error: str | None = None


class CompleteRun(msgspec.Struct, frozen=True):
    """Totals of a run that may be measured. Made by `require_complete_request_set` only."""

    requests: int
    generated: int

    def tokens_per_second(self, seconds: float) -> float:
        """Generated tokens a second. Raises ValueError for a time that is not positive."""
        if not seconds > 0:
            raise ValueError(f"a run cannot take {seconds} seconds")
        return self.generated / seconds


def require_complete_request_set(runs: Sequence[RequestRun], sent: int) -> CompleteRun:
    """The totals of `runs`, if they are all of the `sent` requests and each of them completed.

    Raises IncompleteRunError for a request that failed, was silent (no token, or no end), was truncated (fewer
    tokens than expected), is missing or counted twice, and for a run of no requests.
    """
    faults = [fault for run in runs if (fault := _fault(run)) is not None]
    ids = {run.id for run in runs}
    if len(ids) < len(runs):
        faults.append(f"{len(runs) - len(ids)} requests are counted twice")
    if len(ids) != sent:
        faults.append(f"{len(ids)} of {sent} requests are accounted for")
    if not sent:
        faults.append("no request was sent")
    if faults:
        raise IncompleteRunError(
            f"no rate: the run is not complete ({len(faults)} faults); first: {faults[0]}"
        )
    return CompleteRun(len(runs), sum(run.generated for run in runs))


def _fault(run: RequestRun) -> str | None:
    if run.error is not None:
        return f"request {run.id} failed: {run.error}"
    if run.finish_reason is None:
        return f"request {run.id} was silent: it never ended"
    if run.finish_reason not in ("stop", "length"):
        return f"request {run.id} ended by {run.finish_reason}"
    if run.generated < 1:
        return f"request {run.id} was silent: it has no token"
    if run.expected is not None and run.generated != run.expected:
        return f"request {run.id} was truncated: {run.generated} of {run.expected} tokens"
    return None

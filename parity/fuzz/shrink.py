"""The smallest document that still keeps what must be kept, by passes in a readable order until none finds anything.

The same document and the same `keeps` give the same result: nothing here is drawn by chance. The attempts are the
budget; the seconds are a net below it, and where they end the search the result says so.
"""

from __future__ import annotations

import msgspec

from parity.fuzz.attempts import Keeps, Over, Progress, Search, Stopped
from parity.fuzz.document import Document
from parity.fuzz.edits import renamed, tidied
from parity.fuzz.passes import passes
from parity.fuzz.script_passes import script_passes

ATTEMPTS = 600


class Shrunk(msgspec.Struct, frozen=True):
    """What came out, after that many attempts.

    `stopped` says what ended it, one of its two budgets or whoever asked; null where nothing smaller is left.
    """

    document: Document
    attempts: int
    stopped: Stopped | None


def shrink(
    document: Document,
    keeps: Keeps,
    *,
    attempts: int = ATTEMPTS,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> Shrunk:
    """The smallest document found that `keeps`, which must hold of `document` itself.

    `keeps` is asked only about documents that can be played, about each at most once. Whatever it raises ends the
    search; `progress` is told the smallest document so far, and the attempts made, after each.
    """
    search = Search(document, keeps, attempts, seconds, progress)
    try:
        _search(search)
    except Over as over:
        return Shrunk(search.best, search.attempts, over.stopped)
    return Shrunk(search.best, search.attempts, None)


def _search(search: Search) -> None:
    level = str(search.best.get("level"))
    if level != "serve":
        search.accept(tidied(search.best))
    chosen = script_passes() if level == "serve" else passes(level)
    before: Document | None = None
    while before != search.best:
        before = search.best
        for one in chosen:
            one(search)
    if search.best.get("requests"):
        in_order = sorted(search.best["requests"], key=lambda request: request.get("at", 0))
        any(
            search.accept(_numbered({**search.best, "requests": order}))
            for order in (in_order, search.best["requests"])
        )


def _numbered(document: Document) -> Document:
    """The document with its requests called r0, r1, … in their order."""
    names = {request["id"]: f"r{index}" for index, request in enumerate(document["requests"])}
    return renamed(document, names)

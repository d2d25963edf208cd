"""What verbs tell the user besides their result: lines on stderr, so that stdout stays the result's."""

from __future__ import annotations

import sys


def say(line: str) -> None:
    """A line of progress, at once."""
    print(f"nullblock: {line}", file=sys.stderr, flush=True)

"""What a script is played against, and how a play can fail: the contract between the player and whoever starts servers."""

from __future__ import annotations

import signal
from typing import Protocol

from parity.observation import Ended


class PlayFailed(Exception):
    """A side died, timed out or broke the protocol: one line, and the play is void."""


class Target(Protocol):
    """A running server that completed a first tiny request."""

    @property
    def base_url(self) -> str:
        """`http://127.0.0.1:PORT`."""

    @property
    def model(self) -> str:
        """The folder that it serves, for normalisation."""

    def alive(self) -> bool:
        """Whether the process that was started is still there."""

    def signal(self, name: str) -> None:
        """Send SIG`name` to that process, and to no other."""

    def wait(self, seconds: float) -> Ended:
        """Wait for its end, at most so long; blocks."""

    def last_words(self) -> str:
        """The tail of its log in a few lines, for messages."""


A_MOMENT = 0.1  # seconds, in which a server that has ended is told to have


def own_end(target: Target) -> str:
    """How a server that was sent no signal ended, and what it said last: for the message of a failure. Blocks."""
    code = target.wait(A_MOMENT).code
    if code is None:
        how = "is ending"
    elif code < 0:
        how = f"was killed by {signal.Signals(-code).name}"
    else:
        how = f"ended by itself with status {code}"
    words = target.last_words()
    return f"{how}, and the script had sent it no signal; " + (
        f"its last words:\n{words}" if words.strip() else "it wrote nothing"
    )

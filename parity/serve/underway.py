"""A play that is under way: in a thread of its own, so that both sides play at once."""

from __future__ import annotations

import threading
from collections.abc import Callable

from parity.side import Play


class UnderWay:
    """At most one play at a time."""

    def __init__(self) -> None:
        self._done: threading.Event | None = None  # a join that Ctrl-C breaks off forgets its thread
        self._play: Play | None = None
        self._error: BaseException | None = None

    def begin(self, play: Callable[[], Play]) -> None:
        self._play, self._error = None, None
        self._done = threading.Event()
        threading.Thread(target=self._work, args=(play, self._done), daemon=True).start()

    def finish(self) -> Play:
        """Wait for its end, as long as the play itself takes. Raises what it raised."""
        assert self._done is not None, "finish() without begin()"
        self._done.wait()
        self._done = None
        if self._error is not None:
            raise self._error
        assert self._play is not None, "the work ended without a play"
        return self._play

    def wait(self, seconds: float) -> None:
        """Wait for the end of one that nobody finishes, at most so long."""
        if self._done is not None:
            self._done.wait(seconds)

    def _work(self, play: Callable[[], Play], done: threading.Event) -> None:
        try:
            self._play = play()
        except BaseException as error:  # noqa: BLE001 - raised again where somebody waits for this thread
            self._error = error
        finally:
            done.set()

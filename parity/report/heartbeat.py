"""A line now and then while something takes long, whether or not anything comes of it meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Heartbeat:
    """Calls `say` every so many seconds between `start` and `stop`, in a thread of its own."""

    def __init__(self, say: Callable[[], None], seconds: float) -> None:
        self._say = say
        self._seconds = seconds
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def start(self) -> Heartbeat:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Nothing is said any more once this returns."""
        self._is_over.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._is_over.wait(self._seconds):
            self._say()

"""Clean-up that a second Ctrl-C must not leave half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

REQUESTS = (signal.SIGINT, signal.SIGTERM)  # to end: a terminal's and a supervisor's


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Around work that is bounded in time: a request to end that comes in it is for nothing, as the end is under way.

    Outside the main thread, which alone gets signals, it changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in REQUESTS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

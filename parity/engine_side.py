"""Our own engine as a side: called in process, with its policies, and bounded in time."""

from __future__ import annotations

import ctypes
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

import msgspec

from engine.driver import observe
from parity.observation import decode
from parity.scenario import Scenario
from parity.side import Play

PLAY_SECONDS = 20.0  # a scenario takes milliseconds; the slowest of the suite 0.1 s on a busy machine
MAX_HANGS = 2  # that are waited for so long: an engine that hangs everywhere must not cost hours
HASTY_SECONDS = 1.0  # after them


class _TooLong(BaseException):
    """Raised by the alarm. No `Exception`, so that the engine's own handling cannot swallow it."""


class EngineSide:
    """The engine under `policies` (name → value; empty means that it mirrors the pin)."""

    def __init__(self, policies: Mapping[str, str] | None = None, seconds: float = PLAY_SECONDS) -> None:
        self.policies = dict(policies or {})
        self._seconds = seconds
        self._scenario: Scenario | None = None
        self._hangs = 0

    @property
    def name(self) -> str:
        return "engine"

    def begin(self, scenario: Scenario) -> None:
        self._scenario = scenario

    def finish(self) -> Play:
        scenario = self._scenario
        assert scenario is not None, "finish() without begin()"
        self._scenario = None
        limit = self._seconds if self._hangs < MAX_HANGS else min(self._seconds, HASTY_SECONDS)
        question = msgspec.to_builtins(scenario)
        started = time.perf_counter()
        try:
            with _alarm(limit):
                raw = observe(question, self.policies)
        except _TooLong:
            self._hangs += 1
            return Play(None, f"no end within {limit:g} s", 0.0)
        except Exception as error:  # noqa: BLE001 - whatever the subject raises makes the scenario VOID, not us
            return Play(None, f"{type(error).__name__}: {error}", 0.0)
        seconds = time.perf_counter() - started
        try:
            return Play(decode(scenario.level, raw), None, seconds)
        except msgspec.ValidationError as error:
            return Play(None, f"an observation that does not fit the schema: {error}", seconds)

    def close(self) -> None:
        """Nothing to end: it lives in this process."""


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Interrupt the block after `seconds`: by a signal in the main thread, where the commands play, else from another thread."""
    if threading.current_thread() is not threading.main_thread():
        with _watchman(seconds):
            yield
        return

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _watchman(seconds: float) -> Iterator[None]:
    """Raise _TooLong in this thread after `seconds`. Python code alone can be interrupted so, and the engine's driver is."""
    thread = ctypes.c_ulong(threading.get_ident())
    lock = threading.Lock()
    is_over = False

    def ring() -> None:
        with lock:
            if not is_over:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(_TooLong))

    timer = threading.Timer(seconds, ring)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            is_over = True
        timer.cancel()

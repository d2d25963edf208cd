"""Ctrl-C and SIGTERM: the first asks a command to end well, the second ends it at once, and neither leaves a process behind.

The first request raises where the main thread is, so that everything unwinds: processes are ended, files closed, and what
was done is told. In `uninterrupted` and `postponed` work it waits. The second does not ask anybody: every process in the
register is ended from outside, and then this one.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

REQUESTS = (signal.SIGINT, signal.SIGTERM)  # to end: a terminal's and a supervisor's
INTERRUPTED = 130
TOGETHER_SECONDS = 0.2  # `timeout` signals the process, and then the group that it is in: that is one request
GRACE_SECONDS = 1.0  # that a process gets to clear up when the end is at once, before it is ended by force
ERASE_LINE = "\r\x1b[2K"
SHOW_CURSOR = "\x1b[?25h"

Kill = Callable[[int, int], None]


class _Requests:
    """What came so far, in this process."""

    def __init__(self) -> None:
        self.number = 0
        self.last = 0.0
        self.shields = 0  # blocks under way in which a request must not raise
        self.raises: type[BaseException] = KeyboardInterrupt
        self.line: str | None = None  # what the user is to be told at once


_requests = _Requests()
_below: dict[int, tuple[Kill, float]] = {}  # the children that this process must end, as `register` has them
os.register_at_fork(after_in_child=_below.clear)


def take_over(*, raises: type[BaseException] = KeyboardInterrupt) -> None:
    """From now on a request to end is handled here; the first one raises `raises`. For the main thread."""
    global _requests
    _requests = _Requests()
    _requests.raises = raises
    for number in REQUESTS:
        signal.signal(number, request)


def ignore() -> None:
    """The end is reached: a request that comes now is for nothing."""
    for number in REQUESTS:
        signal.signal(number, signal.SIG_IGN)


def requested() -> bool:
    """Whether somebody asked this process to end."""
    return _requests.number > 0


def heed() -> None:
    """Raise what a request would have raised that came where it must not: for work that must not follow one."""
    if requested():
        _raise()


def request(_number: int, _frame: FrameType | None) -> None:
    """The handler."""
    now = time.monotonic()
    if _requests.number and now - _requests.last < TOGETHER_SECONDS:
        return
    _requests.number += 1
    _requests.last = now
    if _requests.number > 1:
        end_at_once()
    if not _requests.shields:
        _raise()


def _raise() -> NoReturn:
    if _requests.line is not None:
        _write(f"{_requests.line}\n")
    raise _requests.raises


def _write(text: str) -> None:
    """To stderr, past its buffer, which may be in use; on a terminal in the place of a bar of one line."""
    with suppress(OSError):
        os.write(2, (f"{ERASE_LINE}{text}" if os.isatty(2) else text).encode())


@contextmanager
def telling(line: str) -> Iterator[None]:
    """Around work whose interruption is told when it comes, and not when everything has unwound."""
    _requests.line = line
    try:
        yield
    finally:
        _requests.line = None


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Around work that is bounded in time: a first request to end that comes in it is for nothing, as the end is under way.

    Outside the main thread, which alone gets signals, it changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in REQUESTS}
    _requests.shields += 1
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, request)
    try:
        yield
    finally:
        _requests.shields -= 1
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextmanager
def postponed() -> Iterator[None]:
    """Around the start of a process: a request that comes in it raises after it, and a child does not get the terminal's."""
    before = _requests.number
    _requests.shields += 1
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        _requests.shields -= 1
    if _requests.number > before and not _requests.shields:
        _raise()


def register(pid: int, kill: Kill = os.killpg, grace: float = GRACE_SECONDS) -> None:
    """This child must not outlive us: `kill` signals all of it, its group by default, with force after `grace` seconds."""
    _below[pid] = kill, grace


def unregister(pid: int) -> None:
    """It has ended."""
    _below.pop(pid, None)


def end_at_once() -> NoReturn:
    """End whatever is registered, and this process with 130. For a signal's handler, and any thread."""
    left = dict(_below)
    _signal(left, signal.SIGTERM)
    began = time.monotonic()
    patience = GRACE_SECONDS + max((grace for _, grace in left.values()), default=0.0)
    while left and (spent := time.monotonic() - began) < patience:
        left = {pid: how for pid, how in left.items() if not _has_ended(pid)}
        _signal({pid: how for pid, how in left.items() if spent > how[1]}, signal.SIGKILL)
        time.sleep(0.01)
    if os.isatty(2):
        _write(SHOW_CURSOR)
    os._exit(INTERRUPTED)


def _signal(processes: dict[int, tuple[Kill, float]], number: int) -> None:
    for pid, (kill, _) in processes.items():
        with suppress(OSError):
            kill(pid, number)


def _has_ended(pid: int) -> bool:
    """Collects a child that has."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True

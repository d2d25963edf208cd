"""Where units are done: in this process, or in several, each with both sides of its own.

A process that dies is replaced, and what it was doing is done again: a unit's result does not depend on who did it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process, util
from typing import Any, Protocol, TypeVar

from parity.errors import InconclusiveError, ParityError
from parity.fuzz.unit import Done, Find, Reduced, Unit
from parity.fuzz.worker import Post, Worker
from parity.interrupts import uninterrupted
from parity.report.progress import RunProgress

T = TypeVar("T")

MAX_DEATHS = 3  # of processes in one hunt: what always dies must not go on for a night


class Crew(Protocol):
    """Does work in the order in which it comes free; `jobs` pieces at once."""

    @property
    def jobs(self) -> int: ...

    def do(self, unit: Unit) -> Future[Done]:
        """The unit's result to come. Its errors are ParityErrors, or LostWorker where it must be asked again."""

    def shrink(self, find: Find, attempts: int, seconds: float | None) -> Future[Reduced]: ...

    def close(self) -> None:
        """End all that was started, what is under way included."""


class LostWorker(Exception):
    """The process that was at it died. Asked again, the crew has another one."""


class Alone:
    """A crew of one, in this process."""

    jobs = 1

    def __init__(self, post: Post, progress: RunProgress) -> None:
        self._worker = Worker(post, progress)

    def do(self, unit: Unit) -> Future[Done]:
        return _now(lambda: self._worker.do(unit))

    def shrink(self, find: Find, attempts: int, seconds: float | None) -> Future[Reduced]:
        return _now(lambda: self._worker.shrink(find, attempts, seconds))

    def close(self) -> None:
        self._worker.close()


class Processes:
    """`jobs` processes of this machine. The first that cannot start its sides says so, and the crew is of no use."""

    def __init__(self, post: Post, jobs: int) -> None:
        self.jobs = jobs
        self._post = post
        self._deaths = 0
        self._pool = self._open()

    def do(self, unit: Unit) -> Future[Done]:
        return self._submit(_do, unit)

    def shrink(self, find: Find, attempts: int, seconds: float | None) -> Future[Reduced]:
        return self._submit(_shrink, find, attempts, seconds)

    def close(self) -> None:
        with uninterrupted():
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _open(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self.jobs, mp_context=get_context("spawn"), initializer=_begin, initargs=(self._post,)
        )

    def _submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        try:
            return passed_on(self._pool.submit(work, *arguments), _understood)
        except BrokenProcessPool:
            self._deaths += 1
            if self._deaths > MAX_DEATHS:
                raise InconclusiveError(
                    f"{self._deaths} processes of the hunt died", hint="is there memory enough? try --jobs 1"
                ) from None
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = self._open()
            return passed_on(self._pool.submit(work, *arguments), _understood)


def _now(work: Callable[[], T]) -> Future[T]:
    future: Future[T] = Future()
    try:
        future.set_result(work())
    except ParityError as error:
        future.set_exception(error)
    return future


def passed_on(inner: Any, understood: Callable[[Exception], Exception]) -> Future[Any]:
    """The same future, where an error that came as a value is raised, and any other one is as `understood` has it."""
    outer: Future[Any] = Future()

    def pass_on(done: Any) -> None:
        try:
            result = done.result()
        except Exception as error:  # noqa: BLE001 - whatever was raised belongs to whoever waits
            outer.set_exception(understood(error))
            return
        if isinstance(result, Failed):
            outer.set_exception(result.error())
        else:
            outer.set_result(result)

    inner.add_done_callback(pass_on)
    return outer


def _understood(error: Exception) -> Exception:
    return LostWorker() if isinstance(error, BrokenProcessPool) else error


class Failed:
    """A ParityError on its way through a pipe: exceptions with a hint do not survive pickling."""

    def __init__(self, error: ParityError) -> None:
        self._kind = type(error)
        self._message = error.message
        self._hint = error.hint

    def error(self) -> ParityError:
        try:
            return self._kind(self._message, hint=self._hint)
        except TypeError:  # an error of a file, whose message says already which
            return InconclusiveError(self._message, hint=self._hint)


def answer(work: Callable[[], T]) -> T | Failed:
    """What the work gives, or its ParityError as a value."""
    try:
        return work()
    except ParityError as error:
        return Failed(error)


_post: Post | None = None
_worker: Worker | None = None


def _begin(post: Post) -> None:
    """In a new process: Ctrl-C is the parent's business, and the sides start with the first piece of work."""
    global _post
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _post = post


def _end_with_parent() -> None:
    """A parent that is killed tells nobody; its processes, and with their ends the sides', must not stay behind."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _here() -> Worker:
    global _worker
    if _worker is None:
        assert _post is not None, "work before `_begin`"
        _worker = Worker(_post, RunProgress.silent())
        util.Finalize(None, _worker.close, exitpriority=10)
    return _worker


def _do(unit: Unit) -> Done | Failed:
    return answer(lambda: _here().do(unit))


def _shrink(find: Find, attempts: int, seconds: float | None) -> Reduced | Failed:
    return answer(lambda: _here().shrink(find, attempts, seconds))

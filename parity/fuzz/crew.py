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
from multiprocessing import active_children, parent_process, resource_tracker, util
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, Protocol, TypeVar

import msgspec

from parity.errors import InconclusiveError, ParityError
from parity.fuzz.unit import Done, Find, Reduced, Unit
from parity.fuzz.worker import Post, Worker
from parity.interrupts import (
    GRACE_SECONDS,
    end_at_once,
    postponed,
    register,
    requested,
    take_over,
    uninterrupted,
    unregister,
)
from parity.report.progress import RunProgress

T = TypeVar("T")

MAX_DEATHS = 3  # of processes in one hunt: what always dies must not go on for a night

MEMBER_SECONDS = 3 * GRACE_SECONDS  # at an end at once: it ends its own processes first


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
    """A crew of one, in this process. Its sides start with the first piece of work."""

    jobs = 1

    def __init__(self, post: Post, progress: RunProgress) -> None:
        self._post = post
        self._progress = progress
        self._worker: Worker | None = None

    def do(self, unit: Unit) -> Future[Done]:
        return _now(lambda: self._here().do(unit))

    def shrink(self, find: Find, attempts: int, seconds: float | None) -> Future[Reduced]:
        return _now(lambda: self._here().shrink(find, attempts, seconds))

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()

    def _here(self) -> Worker:
        if self._worker is None:
            self._worker = Worker(self._post, self._progress)
        return self._worker


class Processes:
    """`jobs` processes of this machine. The first that cannot start its sides says so, and the crew is of no use."""

    def __init__(self, post: Post, jobs: int, progress: RunProgress | None = None) -> None:
        self.jobs = jobs
        self._post = post
        self._progress = progress or RunProgress.silent()
        self._deaths = 0
        self._under_way: set[Future[Any]] = set()
        self._pool = self._open()

    def do(self, unit: Unit) -> Future[Done]:
        return self._submit(_do, unit)

    def shrink(self, find: Find, attempts: int, seconds: float | None) -> Future[Reduced]:
        return self._submit(_shrink, find, attempts, seconds)

    def close(self) -> None:
        """End all of it; who is at a piece of work that nobody waits for any more is told to leave it."""
        with uninterrupted(), self._progress.ending("ending both sides"):
            if not all(future.done() for future in self._under_way):
                for process in active_children():
                    if isinstance(process, _Member):
                        process.terminate()
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _open(self) -> ProcessPoolExecutor:
        _start_tracker()
        return ProcessPoolExecutor(
            self.jobs, mp_context=_Spawning(), initializer=_begin, initargs=(self._post,)
        )

    def _submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        try:
            inner = self._hand_out(work, *arguments)
        except BrokenProcessPool:
            self._deaths += 1
            if self._deaths > MAX_DEATHS:
                raise InconclusiveError(
                    f"{self._deaths} processes of the hunt died", hint="is there memory enough? try --jobs 1"
                ) from None
            self._progress.news("a process of the hunt died; its work is begun again in another one …")
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = self._open()
            inner = self._hand_out(work, *arguments)
        return passed_on(inner, _understood, self._progress.news)

    def _hand_out(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """To the pool, which starts a process for it where none is free: half a start could not be ended."""
        with postponed():
            future = self._pool.submit(work, *arguments)
            self._under_way = {one for one in self._under_way if not one.done()} | {future}
        return future


class _Member(SpawnProcess):
    """A process of the crew, in the register while it lives."""

    def start(self) -> None:
        super().start()
        register(self.pid or 0, os.kill, MEMBER_SECONDS)

    def join(self, timeout: float | None = None) -> None:
        super().join(timeout)
        if self.exitcode is not None:
            unregister(self.pid or 0)


class _Spawning(SpawnContext):
    Process = _Member


def _start_tracker() -> None:
    """The process that clears up after this package of the standard library. An end at once leaves it some, of which it would warn."""
    with postponed():
        before = os.environ.get("PYTHONWARNINGS")
        os.environ["PYTHONWARNINGS"] = "ignore:resource_tracker:UserWarning"
        try:
            resource_tracker.ensure_running()
        finally:
            if before is None:
                del os.environ["PYTHONWARNINGS"]
            else:
                os.environ["PYTHONWARNINGS"] = before


def _now(work: Callable[[], T]) -> Future[T]:
    future: Future[T] = Future()
    try:
        future.set_result(work())
    except ParityError as error:
        future.set_exception(error)
    return future


def passed_on(
    inner: Any, understood: Callable[[Exception], Exception], news: Callable[[str], None] | None = None
) -> Future[Any]:
    """The same future, where an error that came as a value is raised, and any other one is as `understood` has it.

    `news` is told what was said where the work was done.
    """
    outer: Future[Any] = Future()

    def pass_on(done: Any) -> None:
        try:
            result = done.result()
        except Exception as error:  # noqa: BLE001 - whatever was raised belongs to whoever waits
            outer.set_exception(understood(error))
            return
        except SystemExit:  # it was told to leave its work
            outer.set_exception(LostWorker())
            return
        if isinstance(result, Told):
            for line in result.lines:
                if news is not None:
                    news(line)
            result = result.result
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


class Told(msgspec.Struct, frozen=True):
    """A result, or a Failed, and the lines that were said on the way to it."""

    result: Any
    lines: list[str]


_post: Post | None = None
_worker: Worker | None = None
_said: list[str] = []


class _Reporting(RunProgress):
    """Of a process whose parent does the talking: what is out of the ordinary goes to it with the next result."""

    def news(self, line: str) -> None:
        _said.append(line)


def _begin(post: Post) -> None:
    """In a new process: Ctrl-C is the parent's business, and the sides start with the first piece of work."""
    global _post
    take_over(raises=SystemExit)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # which the servers below must hear
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _post = post


def _end_with_parent() -> None:
    """A parent that is killed tells nobody; its processes, and with their ends the sides', must not stay behind."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        end_at_once()


def _here() -> Worker:
    global _worker
    if requested():
        raise SystemExit  # a piece of work that was handed out before the end was asked for
    if _worker is None:
        assert _post is not None, "work before `_begin`"
        _worker = Worker(_post, _Reporting.silent())
        util.Finalize(None, _worker.close, exitpriority=10)
    return _worker


def _do(unit: Unit) -> Told:
    return _told(lambda: _here().do(unit))


def _shrink(find: Find, attempts: int, seconds: float | None) -> Told:
    return _told(lambda: _here().shrink(find, attempts, seconds))


def _told(work: Callable[[], Any]) -> Told:
    result = answer(work)
    lines = list(_said)
    _said.clear()
    return Told(result, lines)

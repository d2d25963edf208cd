"""Work done in forked children, a few at once, each bounded in time and memory: what hangs or dies is an answer too.

A child starts as this process is, warm, and so costs little; it answers with one JSON value and is gone with its whole
group. Only for processes without other threads.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Work = Callable[[], Any]
Key = TypeVar("Key")
MEMORY = 4 << 30  # bytes of data a process
GRACE = 5.0  # seconds between asking a child to end and ending it
FAILED = 70


@dataclass(frozen=True)
class Task(Generic[Key]):
    """A piece of work, and the seconds that it may take."""

    key: Key
    work: Work
    seconds: float


@dataclass(frozen=True)
class Answer(Generic[Key]):
    """What became of a task: its value, or how the child ended without one (`hang`, `died`)."""

    key: Key
    value: Any
    failure: str | None
    seconds: float


@dataclass
class _Child(Generic[Key]):
    task: Task[Key]
    pid: int
    pipe: int
    began: float
    data: bytearray = field(default_factory=bytearray)
    asked: float | None = None  # when it was asked to end


def run_all(tasks: Sequence[Task[Key]], jobs: int) -> Iterator[Answer[Key]]:
    """The answers as they come. Whatever ends the loop ends the children."""
    waiting = list(reversed(tasks))
    children: dict[int, _Child[Key]] = {}
    try:
        while waiting or children:
            while waiting and len(children) < jobs:
                child = _start(waiting.pop())
                children[child.pipe] = child
            ready, _, _ = select.select(list(children), [], [], 0.1)
            for pipe in ready:
                data = os.read(pipe, 1 << 16)
                children[pipe].data += data
                if not data:
                    yield _finish(children.pop(pipe))
            _hurry(children)
    finally:
        for child in children.values():
            _kill(child.pid)
            _finish(child)


def _start(task: Task[Key]) -> _Child[Key]:
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = FAILED
        try:
            os.setpgid(0, 0)
            os.close(reading)
            _be_quiet()
            value = json.dumps(task.work()).encode()
            while value:
                value = value[os.write(writing, value) :]
            code = 0
        except BaseException:  # noqa: BLE001 - the child's last place: the parent learns that no value came
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writing)
    with contextlib.suppress(OSError):  # the child did it first, or is gone
        os.setpgid(pid, pid)
    return _Child(task, pid, reading, time.monotonic())


def _be_quiet() -> None:
    """Signals as at a start, nothing on the terminal, bounded memory."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _hurry(children: dict[int, _Child[Key]]) -> None:
    """Ask who is over time to end, so that it ends what it started; then end it."""
    now = time.monotonic()
    for child in children.values():
        if child.asked is None and now - child.began > child.task.seconds:
            child.asked = now
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGINT)
        elif child.asked is not None and now - child.asked > GRACE:
            _kill(child.pid)


def _finish(child: _Child[Key]) -> Answer[Key]:
    os.close(child.pipe)
    _, status = os.waitpid(child.pid, 0)
    _kill(child.pid)  # what it left in its group
    seconds = time.monotonic() - child.began
    if child.asked is not None:
        return Answer(child.task.key, None, "hang", seconds)
    if status != 0 or not child.data:
        return Answer(child.task.key, None, "died", seconds)
    return Answer(child.task.key, json.loads(bytes(child.data)), None, seconds)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)

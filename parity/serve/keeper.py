"""The guardian of one server: starts it, says how it ended, and leaves nothing of it behind, whatever happens.

    python -I -S keeper.py LOG SCRATCH COMMAND…

It runs in a session of its own, so that the terminal's Ctrl-C does not reach it, with the standard library alone. The
server gets a process group, its output is added to LOG, and every process that it leaves is adopted here, one that took a
session of its own included: a server's engine outlives a `kill -9` of its parent. Lines of JSON on stdout:

    {"started": pid} | {"failed": "why"}
    {"ended": code}       the server's process, a negative code being the signal that killed it
    {"orphans": n}        processes of its that were alive five seconds later; they are ended now

stdin is a lifeline: when it is closed (on request, or because the harness is gone, by whatever death), the server is
told to end, with SIGTERM first, so that it can clear up what it shares, and with SIGKILL soon after. SCRATCH, the
server's folder of temporary files, is removed in the end.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable
from typing import NoReturn

ORPHAN_SECONDS = 5.0  # after the server's end; whoever is alive then has outlived it. On a busy machine processes of upstream
# that had been told to end were still ending after one second, once in 60 servers
TIDY_SECONDS = 1.0  # that those get to clear up
TERM_SECONDS = 3.0  # between the request to end and the force
KILL_SECONDS = 10.0  # for the kernel to clear what was killed
PR_SET_CHILD_SUBREAPER = 36
PROTECTED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
)  # asked of the keeper itself, each is a request to end
STDIN, STDOUT = 0, 1


def main(argv: list[str]) -> int:
    log, scratch, *command = argv
    keeper = Keeper()
    try:
        try:
            keeper.start(command, log)
        except OSError as error:
            say(failed=f"{error.filename or command[0]}: {error.strerror}")
            return 1
        return 0 if keeper.watch() else 1
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


class Keeper:
    """One server's life. Every process below this one is the server's, since orphans are adopted."""

    def __init__(self) -> None:
        self._wakeup, end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(end)
        for number in (signal.SIGCHLD, *PROTECTED):
            signal.signal(number, _only_wake_up)
        self._leader = 0
        self._code: int | None = None
        self._alone = False  # no process is left below this one
        self._asked = False  # to end the server

    def start(self, command: list[str], log: str) -> None:
        """Raises OSError with the file at fault: the log, or the command."""
        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "the system lets nobody adopt orphans (prctl)")
        sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(sink, sys.stderr.fileno())
        self._leader = os.posix_spawnp(
            command[0],
            command,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, STDIN, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, sink, STDOUT),
            ],
            setpgroup=0,
            setsigmask=(),
            setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
        )
        os.close(sink)
        say(started=self._leader)

    def watch(self) -> bool:
        """Until nothing of the server is left; false if something could not be ended."""
        self._until(lambda: self._ended() or self._asked)
        if not self._ended():
            self._end_leader()
        say(ended=self._code)
        self._until(lambda: self._alone, ORPHAN_SECONDS)
        say(orphans=0 if self._alone else len(below(os.getpid())))
        self._end_orphans()
        return self._alone

    def _end_leader(self) -> None:
        """The server alone: a helper of its that clears up after it must outlive it to do so."""
        for number, seconds in ((signal.SIGTERM, TERM_SECONDS), (signal.SIGKILL, None)):
            if not self._ended():
                os.kill(self._leader, number)  # not reaped yet, so the id is still its own
                self._until(self._ended, seconds)

    def _end_orphans(self) -> None:
        patience = time.monotonic() + KILL_SECONDS
        number = signal.SIGTERM
        while not self._alone and time.monotonic() < patience:
            for pid in below(os.getpid()):
                with contextlib.suppress(ProcessLookupError):  # it ended since
                    os.kill(pid, number)
            self._until(lambda: self._alone, TIDY_SECONDS if number == signal.SIGTERM else 0.1)
            number = signal.SIGKILL  # again and again: a process may have been born between look and shot

    def _ended(self) -> bool:
        return self._code is not None

    def _until(self, done: Callable[[], bool], seconds: float | None = None) -> None:
        """Wait for `done`, at most so long; it can only change when a process ends or an end is asked for."""
        deadline = None if seconds is None else time.monotonic() + seconds
        self._reap()
        while not done():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            sources = [self._wakeup] if self._asked else [self._wakeup, STDIN]
            ready = select.select(sources, [], [], left)[0]
            if STDIN in ready or (self._wakeup in ready and set(os.read(self._wakeup, 512)) & {*PROTECTED}):
                self._asked = True
            self._reap()

    def _reap(self) -> None:
        """Collect whoever ended, adopted ones included."""
        while not self._alone:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._alone = True
                return
            if pid == 0:
                return
            if pid == self._leader:
                self._code = os.waitstatus_to_exitcode(status)


def below(ancestor: int) -> list[int]:
    """The living processes below this one, children and theirs; zombies are dead."""
    parents: dict[int, int] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # it may end meanwhile
            state, parent = file.read().rpartition(b")")[2].split()[:2]
            if state not in (b"Z", b"X"):
                parents[int(name)] = int(parent)
    found = {ancestor}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found - {ancestor})


def say(**line: object) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody listens any more; what is to be done stays the same
        os.write(STDOUT, json.dumps(line).encode() + b"\n")


def _only_wake_up(_number: int, _frame: object) -> None:
    """A signal must have a handler for its number to reach the wake-up descriptor."""


def run() -> NoReturn:
    raise SystemExit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()

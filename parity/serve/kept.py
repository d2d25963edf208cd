"""A server's process as the harness sees it: what its keeper says of it, and the lifeline that ends it.

A thread reads the keeper's lines (`keeper.py` has the protocol), so that nobody asks a process how another one is. Closing
the keeper's stdin, on purpose or by dying, is all that it takes to end the server.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import msgspec

from parity import interrupts
from parity.observation import Ended
from parity.serve import keeper
from parity.serve.target import PlayFailed

START_SECONDS = 30.0  # for an interpreter and a fork, on a machine that is busy
COUNT_SECONDS = keeper.ORPHAN_SECONDS + 10.0
CLOSE_SECONDS = keeper.TERM_SECONDS + 2 * keeper.ORPHAN_SECONDS + keeper.KILL_SECONDS + 10.0


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the keeper's: one of the four is set."""

    started: int | None = None
    failed: str | None = None
    ended: int | None = None
    orphans: int | None = None


class Kept:
    """Runs `command` in `folder` under a keeper, its output going to `log`; `scratch` is removed with it.

    Raises PlayFailed, which names `name`, when there is no such command.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        log: Path,
        scratch: Path,
    ) -> None:
        self.log = log
        self.pid = 0
        self._name = name
        self._scratch = scratch
        self._news = threading.Condition()
        self._failed: str | None = None
        self._code: int | None = None
        self._orphans: int | None = None
        self._silent = False  # the keeper will say nothing more
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", keeper.__file__, str(log), str(scratch), *command],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        interrupts.register(self._process.pid, _hurry)
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()
        with self._news:
            self._news.wait_for(lambda: self.pid or self._silent, START_SECONDS)
        if not self.pid:
            self.close()
            raise PlayFailed(f"{name} cannot be started: {self._failed or 'its keeper did not come up'}")

    def alive(self) -> bool:
        with self._news:
            return self._code is None and not self._silent

    def send(self, number: signal.Signals) -> None:
        """A signal to the server's own process; one that has ended gets none."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):  # it ended since, which `wait` tells
                os.kill(self.pid, number)

    def wait(self, seconds: float) -> Ended:
        """Wait for the server's end, at most so long, and then for the count of those that outlived it.

        Raises PlayFailed when the keeper is gone and nobody can tell.
        """
        with self._news:
            self._news.wait_for(lambda: self._code is not None or self._silent, seconds)
            if self._code is None and not self._silent:
                return Ended("alive", None, 0)
            self._news.wait_for(lambda: self._orphans is not None or self._silent, COUNT_SECONDS)
            if self._code is None or self._orphans is None:
                raise PlayFailed(
                    f"the keeper of {self._name} was ended from outside, and process {self.pid} with it"
                )
            return Ended("exited", self._code, self._orphans)

    def close(self) -> None:
        """End the server with every process of its, and wait until that is done. Can be called again."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        interrupts.unregister(self._process.pid)
        if self._process.returncode != 0:
            self._clear_up()
        self._reader.join()

    def _clear_up(self) -> None:
        """The keeper did not finish its work: the server's group and its files are left to us."""
        with self._news:
            ended = self._code is not None
        if self.pid and not ended:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _read(self, lines: IO[bytes]) -> None:
        try:
            with lines:
                for raw in lines:
                    self._take(msgspec.json.decode(raw, type=_Line))
        finally:
            with self._news:
                self._silent = True
                self._news.notify_all()

    def _take(self, line: _Line) -> None:
        with self._news:
            if line.started is not None:
                self.pid = line.started
            elif line.failed is not None:
                self._failed = line.failed
            elif line.ended is not None:
                self._code = line.ended
            else:
                self._orphans = line.orphans
            self._news.notify_all()


def _hurry(pid: int, number: int) -> None:
    """A keeper is never ended by force, but what it keeps is: then it clears up after that and ends."""
    for process in keeper.below(pid) if number == signal.SIGKILL else (pid,):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)

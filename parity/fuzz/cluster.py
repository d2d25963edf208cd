"""A crew on an existing Dask cluster: the same units, done by workers on any number of machines.

Each worker has a checkout of the same commit and the oracle installed there (`make setup`), and runs in that checkout
with one thread a core. A worker that dies is the scheduler's business: it gives what that one was at to another, and as
a unit's result does not depend on who did it, none is lost and none counts twice. Needs the extra `nullblock[cluster]`.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import msgspec

from parity.errors import InconclusiveError, UsageError
from parity.fuzz.crew import Failed, answer, passed_on
from parity.fuzz.unit import Done, Find, Reduced, Unit
from parity.fuzz.worker import Post, Worker
from parity.oracle_side import measure_oracle
from parity.report.progress import RunProgress
from parity.root import CODE_ROOT
from parity.runfile import describe_tree

CONNECT_SECONDS = 10.0


class Cluster:
    """The workers of the Dask scheduler at `address`. `jobs` is the number of their threads when the hunt began.

    Raises UsageError where dask is not installed, InconclusiveError where no scheduler answers or it has no workers.
    """

    def __init__(self, post: Post, address: str) -> None:
        self._post = post
        self._commit = describe_tree(post.root)[0]
        try:
            from distributed import Client
        except ImportError:
            raise UsageError(
                "--cluster needs dask, and it is not here", hint="pip install 'nullblock[cluster]'"
            ) from None
        _check_scheduler(address)
        self._client: Any = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        self.jobs = sum(self._client.nthreads().values())
        if not self.jobs:
            self._client.close()
            raise InconclusiveError(
                f"the cluster at {address} has no workers", hint="start some in a checkout of this commit"
            )

    def do(self, unit: Unit) -> Future[Done]:
        return self._submit(_do, unit)

    def shrink(self, find: Find, attempts: int, seconds: float | None) -> Future[Reduced]:
        return self._submit(_shrink, find, attempts, seconds)

    def close(self) -> None:
        self._client.close()

    def _submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        task = self._client.submit(work, self._post, self._commit, *arguments, pure=False)
        return passed_on(task, _understood)


def _check_scheduler(address: str) -> None:
    """Raises InconclusiveError unless a scheduler answers there in time.

    Dask's client is not asked: it waits without a bound for a port that never says anything, and takes half a minute to
    give up where it could not begin. What refuses at once is not asked again until the time is over, as Dask does.
    """
    host, _, port = address.rpartition("//")[2].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
        kind = asyncio.run(asyncio.wait_for(_kind_of(address), CONNECT_SECONDS))
    except Exception as error:  # noqa: BLE001 - what is no scheduler may answer anything
        said = getattr(error, "strerror", None) or str(error)
        reason = said.splitlines()[0] if said else f"no answer in {CONNECT_SECONDS:g} s"
        raise _no_scheduler(address, reason) from None
    if kind != "Scheduler":
        raise _no_scheduler(address, f"a {kind} does")


async def _kind_of(address: str) -> str:
    """What Dask calls whoever listens there, such as Scheduler."""
    from distributed import Security, rpc

    arguments = Security().get_connection_args("client")
    async with rpc(address, connection_args=arguments, timeout=CONNECT_SECONDS) as peer:
        return str((await peer.identity())["type"])


def _no_scheduler(address: str, reason: str) -> InconclusiveError:
    return InconclusiveError(
        f"no Dask scheduler answers at {address}: {reason}", hint="is it running, and is that its address?"
    )


def _understood(error: Exception) -> Exception:
    from distributed import CancelledError, KilledWorker

    if isinstance(error, KilledWorker):
        return InconclusiveError(
            "one unit ended several workers of the cluster",
            hint="look at the workers' logs: is there memory enough?",
        )
    if isinstance(error, CancelledError):
        return InconclusiveError("the cluster gave up the hunt's work", hint="is its scheduler still there?")
    return error


_workers: dict[tuple[int, bytes], Worker] = {}


def _here(post: Post, commit: str | None) -> Worker:
    """This thread's worker for this hunt, in the checkout that this machine has."""
    key = (threading.get_ident(), msgspec.json.encode([post.pin.name, post.level, post.policies]))
    if key not in _workers:
        root = CODE_ROOT
        own = describe_tree(root)[0]
        if own != commit:
            raise InconclusiveError(f"a worker has commit {own}, and the hunt is on {commit}")
        there = msgspec.structs.replace(post, root=root, measured=measure_oracle(root, post.pin))
        _workers[key] = Worker(there, RunProgress.silent())
    return _workers[key]


def _do(post: Post, commit: str | None, unit: Unit) -> Done | Failed:
    return answer(lambda: _here(post, commit).do(unit))


def _shrink(
    post: Post, commit: str | None, find: Find, attempts: int, seconds: float | None
) -> Reduced | Failed:
    return answer(lambda: _here(post, commit).shrink(find, attempts, seconds))

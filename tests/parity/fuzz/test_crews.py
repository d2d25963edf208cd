"""Whoever does the units, the hunt is the same: one process, several, a Dask cluster, and one of them killed in the middle."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from parity.errors import InconclusiveError
from parity.fuzz import crew
from parity.fuzz.campaign import Campaign, Plan
from parity.fuzz.cluster import Cluster
from parity.fuzz.crew import Alone, Crew, Processes
from parity.fuzz.tally import Tally, tally_of
from parity.fuzz.unit import Done
from parity.fuzz.worker import Post
from parity.oracle_side import find_pin, measure_oracle
from parity.report.progress import RunProgress

UNITS, SIZE = 6, 40


@pytest.fixture(scope="module")
def post() -> Post:
    root = Path(__file__).resolve().parents[3]
    pin = find_pin(root, None)
    return Post(root, pin, measure_oracle(root, pin), "schedule", {})


def cluster_of(workers: int) -> Any:
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    )


@pytest.fixture(scope="module")
def alone(post: Post) -> Iterator[Alone]:
    crew = Alone(post, RunProgress.silent())
    try:
        yield crew
    finally:
        crew.close()


@pytest.fixture(scope="module")
def whole(alone: Alone) -> Tally:
    """The hunt as one process does it."""
    return hunt(alone)[0]


def hunt(crew: Crew, watch: Any = None, shard: tuple[int, int] = (1, 1)) -> tuple[Tally, list[Done]]:
    kept: list[Done] = []
    plan = Plan("schedule", 11, SIZE, {}, shard, None, UNITS * SIZE, keep_going=True)
    return Campaign(plan, crew, watch, kept.append).run(), kept


def what(tally: Tally) -> tuple[object, ...]:
    return (
        tally.units,
        tally.scenarios,
        tally.plays,
        tally.states,
        tally.behaviours,
        tally.pairs,
        tally.known,
        [one.fingerprint for one in tally.finds()],
    )


class Killer:
    """Kills a process of the crew once, when the first unit has come in and others are under way."""

    def __init__(self, choose: Callable[[], int]) -> None:
        self._choose = choose
        self.killed: int | None = None

    def __call__(self, tally: Tally) -> None:
        if tally.units and self.killed is None:
            self.killed = self._choose()
            os.kill(self.killed, signal.SIGKILL)


@pytest.mark.oracle
def test_shards_joined_are_the_whole_hunt(alone: Alone, whole: Tally) -> None:
    parts = [done for number in (1, 2, 3) for done in hunt(alone, shard=(number, 3))[1]]

    assert what(tally_of(parts)) == what(whole)
    assert whole.scenarios == UNITS * SIZE


@pytest.mark.oracle
def test_a_process_that_is_killed_costs_time_and_nothing_else(post: Post, whole: Tally) -> None:
    crew = Processes(post, 2)
    kill = Killer(lambda: min(child.pid or 0 for child in multiprocessing.active_children()))
    try:
        tally, kept = hunt(crew, kill)
    finally:
        crew.close()

    assert kill.killed
    assert sorted(done.unit.index for done in kept) == list(range(UNITS))
    assert what(tally) == what(whole)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_a_worker_of_a_cluster_that_is_killed_costs_time_and_nothing_else(post: Post, whole: Tally) -> None:
    cluster = cluster_of(2)
    kill = Killer(lambda: int(next(iter(cluster.workers.values())).pid))
    try:
        crew = Cluster(post, cluster.scheduler_address)
        try:
            tally, kept = hunt(crew, kill)
        finally:
            crew.close()
    finally:
        cluster.close()

    assert kill.killed
    assert crew.jobs == 2
    assert sorted(done.unit.index for done in kept) == list(range(UNITS))
    assert what(tally) == what(whole)


ANYWHERE: Any = type("Anywhere", (), {"root": Path.cwd()})()


@contextmanager
def listening(answer: bytes | None) -> Iterator[int]:
    """A port that gives everyone this answer and hangs up, or takes everyone in and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    peer, _ = server.accept()
                    peer.sendall(answer or b"")
                    peer.close()

        if answer is not None:
            threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)


def test_a_closed_port_is_told_at_once() -> None:
    began = time.monotonic()

    with pytest.raises(InconclusiveError, match=r"answers at tcp://127\.0\.0\.1:9: Connection refused"):
        Cluster(ANYWHERE, "tcp://127.0.0.1:9")

    assert time.monotonic() - began < 5


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("answer", [None, b"", b"HTTP/1.1 400 Bad Request\r\n\r\n" * 9])
def test_a_port_of_something_else_is_one_line_and_is_not_waited_for(
    answer: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parity.fuzz.cluster.CONNECT_SECONDS", 1)
    began = time.monotonic()

    with (
        listening(answer) as port,
        pytest.raises(InconclusiveError, match=f"no Dask scheduler answers at tcp://127.0.0.1:{port}: ."),
    ):
        Cluster(ANYWHERE, f"tcp://127.0.0.1:{port}")

    assert time.monotonic() - began < 5


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_a_workers_own_address_is_told() -> None:
    cluster = cluster_of(1)
    try:
        worker = next(iter(cluster.workers.values())).worker_address
        with pytest.raises(InconclusiveError, match=f"answers at {worker}: a Worker does"):
            Cluster(ANYWHERE, worker)
    finally:
        cluster.close()


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_a_cluster_without_workers_is_told() -> None:
    cluster = cluster_of(0)
    try:
        with pytest.raises(InconclusiveError, match="has no workers"):
            Cluster(ANYWHERE, cluster.scheduler_address)
    finally:
        cluster.close()


LEAVES_A_CHILD = """
import os, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from parity.fuzz import crew

if __name__ == "__main__":
    pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=crew._begin, initargs=(None,))
    print(pool.submit(os.getpid).result(), flush=True)
    time.sleep(60)
"""


def test_a_hunt_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    script = tmp_path / "leaves_a_child.py"
    script.write_text(LEAVES_A_CHILD)
    root = Path(__file__).resolve().parents[3]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, text=True, env=environment
    ) as hunt:
        assert hunt.stdout is not None
        child = int(hunt.stdout.readline())
        hunt.kill()
        hunt.wait()

    deadline = time.monotonic() + 20
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{child}").exists()


def test_what_was_said_on_the_way_to_a_result_is_told() -> None:
    """In a process of a crew nobody hears it."""

    def work() -> str:
        crew._Reporting.silent().news("oracle: it died; starting it again …")
        return "done"

    told: list[str] = []
    first, second = crew._told(work), crew._told(lambda: "again")
    inner: Future[Any] = Future()
    outer = crew.passed_on(inner, lambda error: error, told.append)

    inner.set_result(first)

    assert outer.result(0) == "done"
    assert told == ["oracle: it died; starting it again …"]
    assert second.lines == []

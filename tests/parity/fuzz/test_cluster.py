"""A hunt on a Dask cluster: a worker that is killed in the middle costs time and nothing else."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parity.errors import InconclusiveError, UsageError
from parity.fuzz.campaign import Campaign, Plan
from parity.fuzz.cluster import Cluster
from parity.fuzz.crew import Alone, Crew
from parity.fuzz.tally import Tally
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


@pytest.fixture
def two_workers() -> Iterator[Any]:
    cluster = cluster_of(2)
    try:
        yield cluster
    finally:
        cluster.close()


def hunt(crew: Crew, watch: Any = None) -> tuple[Tally, list[Done]]:
    kept: list[Done] = []
    plan = Plan("schedule", 11, SIZE, {}, (1, 1), None, UNITS * SIZE, keep_going=True)
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


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_no_unit_is_lost_and_none_counts_twice_when_a_worker_is_killed(post: Post, two_workers: Any) -> None:
    alone = Alone(post, RunProgress.silent())
    try:
        expected, _ = hunt(alone)
    finally:
        alone.close()
    killed: list[int] = []

    def kill_one(tally: Tally) -> None:
        if tally.units and not killed:
            pid = next(iter(two_workers.workers.values())).pid
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    crew = Cluster(post, two_workers.scheduler_address)
    try:
        tally, kept = hunt(crew, kill_one)
    finally:
        crew.close()

    assert killed
    assert crew.jobs == 2
    assert sorted(done.unit.index for done in kept) == list(range(UNITS))
    assert what(tally) == what(expected)
    assert tally.scenarios == UNITS * SIZE


def test_an_address_where_nobody_answers_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parity.fuzz.cluster.CONNECT_SECONDS", 1)
    post: Any = type("Anywhere", (), {"root": Path.cwd()})()

    with pytest.raises(UsageError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9:"):
        Cluster(post, "tcp://127.0.0.1:9")


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_a_cluster_without_workers_is_told() -> None:
    post: Any = type("Anywhere", (), {"root": Path.cwd()})()
    cluster = cluster_of(0)
    try:
        with pytest.raises(InconclusiveError, match="has no workers"):
            Cluster(post, cluster.scheduler_address)
    finally:
        cluster.close()

"""The two disciplines of the waiting queue; iteration is the order of service."""

from __future__ import annotations

import msgspec
import pytest

from engine.request import Request
from engine.request_queue import FcfsQueue, PriorityQueue, RequestQueue, make_queue
from engine.scheduler import ids
from engine.wire import RequestSpec
from tests.engine.scenes import Requests


def waiting(name: str, priority: int = 0, arrival: int = 0) -> Request:
    spec = Requests().make(4, 1, id=name, priority=priority, arrival=arrival)
    return Request(msgspec.convert(spec, RequestSpec), None)


def drained(queue: RequestQueue) -> list[str]:
    return [queue.pop().id for _ in range(len(queue))]


def test_fcfs_serves_in_order_of_adding_whatever_the_priority() -> None:
    queue = FcfsQueue()
    for request in (waiting("a", priority=2), waiting("b", priority=1)):
        queue.add(request)

    assert ids(queue) == ["a", "b"]
    assert drained(queue) == ["a", "b"]


def test_fcfs_puts_a_preempted_request_in_front() -> None:
    queue = FcfsQueue()
    queue.add(waiting("a"))

    queue.put_back(waiting("b"))

    assert ids(queue) == ["b", "a"]


def test_priority_serves_by_priority_then_arrival_then_id() -> None:
    queue = PriorityQueue()
    for request in (
        waiting("z", priority=1, arrival=0),
        waiting("b", priority=0, arrival=5),
        waiting("a", priority=0, arrival=5),
        waiting("y", priority=0, arrival=3),
        waiting("x", priority=-1, arrival=9),
    ):
        queue.add(request)

    assert ids(queue) == ["x", "y", "a", "b", "z"]
    assert drained(queue) == ["x", "y", "a", "b", "z"]


def test_priority_gives_a_preempted_request_the_place_of_its_key() -> None:
    queue = PriorityQueue()
    queue.add(waiting("b", arrival=1))

    queue.put_back(waiting("a", arrival=2))

    assert ids(queue) == ["b", "a"]


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_looking_takes_nothing_and_removing_takes_one(policy: str) -> None:
    queue = make_queue(policy)
    first, second = waiting("a", arrival=0), waiting("b", arrival=1)
    queue.add(first)
    queue.add(second)

    assert queue.peek() is first
    assert len(queue) == 2
    queue.remove(first)
    assert ids(queue) == ["b"]
    with pytest.raises(ValueError):
        queue.remove(first)


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_an_empty_queue_serves_nobody(policy: str) -> None:
    queue = make_queue(policy)

    with pytest.raises(IndexError):
        queue.peek()
    with pytest.raises(IndexError):
        queue.pop()

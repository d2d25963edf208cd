"""The waiting queue in its two disciplines; iteration is in the order in which requests would be served.

Mirrors vllm/v1/core/sched/request_queue.py. Upstream's priority queue is a heap; since (priority, arrival,
id) is a total order, a sorted list is served and iterated in the same order.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterator
from operator import attrgetter
from typing import Protocol

from engine.request import Request


class RequestQueue(Protocol):
    """What the scheduler needs of a waiting queue."""

    def add(self, request: Request) -> None:
        """Add a request that arrives."""

    def put_back(self, request: Request) -> None:
        """Add a request that was preempted."""

    def peek(self) -> Request:
        """The request that would be served next. Raises IndexError on an empty queue."""

    def pop(self) -> Request:
        """Take the request that would be served next. Raises IndexError on an empty queue."""

    def remove(self, request: Request) -> None:
        """Take out a request of the queue. Raises ValueError when it is not in it."""

    def __iter__(self) -> Iterator[Request]: ...

    def __len__(self) -> int: ...


class FcfsQueue:
    """First come, first served; a preempted request goes to the front."""

    __slots__ = ("_requests",)

    def __init__(self) -> None:
        self._requests: deque[Request] = deque()

    def add(self, request: Request) -> None:
        self._requests.append(request)

    def put_back(self, request: Request) -> None:
        self._requests.appendleft(request)

    def peek(self) -> Request:
        return self._requests[0]

    def pop(self) -> Request:
        return self._requests.popleft()

    def remove(self, request: Request) -> None:
        self._requests.remove(request)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._requests)

    def __len__(self) -> int:
        return len(self._requests)


class PriorityQueue:
    """Smallest (priority, arrival, id) first; a preempted request takes the place that its key gives it."""

    __slots__ = ("_requests",)

    def __init__(self) -> None:
        self._requests: list[Request] = []

    def add(self, request: Request) -> None:
        insort(self._requests, request, key=attrgetter("order"))

    def put_back(self, request: Request) -> None:
        self.add(request)

    def peek(self) -> Request:
        return self._requests[0]

    def pop(self) -> Request:
        return self._requests.pop(0)

    def remove(self, request: Request) -> None:
        self._requests.remove(request)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._requests)

    def __len__(self) -> int:
        return len(self._requests)


def make_queue(policy: str) -> RequestQueue:
    """An empty queue for a scheduling policy, `fcfs` or `priority`."""
    return PriorityQueue() if policy == "priority" else FcfsQueue()

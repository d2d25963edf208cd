"""Work that a long text makes of a request, away from the event loop: whoever sends one keeps nobody else waiting.

Templates, tokenising and its way back take about a microsecond a character. What comes from a small body is done at
once; the rest goes to THREADS threads, where it queues. A fast tokenizer lets other threads run while it works.
Mirrors vllm/renderers/base.py::BaseRenderer, which has one thread for texts of any length.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from fastapi import Request

AT_ONCE = 8192  # bytes of a body whose work takes some milliseconds at most
THREADS = 2
T = TypeVar("T")


class Worker:
    """A few threads for one server; what is queued when the process ends is dropped with it."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="nullblock-text")

    async def run(self, size: int, work: Callable[[], T]) -> T:
        """What `work` returns or raises; `size` is that of the request's body in bytes."""
        if size <= AT_ONCE:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


async def size_of(request: Request) -> int:
    """Bytes of a request's body, which has been read by the time a handler runs."""
    return len(await request.body())

"""A fork of upstream's scheduler with one change: a preempted request goes to the back of the waiting queue.

Upstream puts it to the front, so that the oldest request is the first to come back. The change can only show where
another request waits when one is preempted, and then whoever was preempted may starve.
"""

from __future__ import annotations

from typing import Any

from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import Request


class BackOfTheQueue(Scheduler):
    """Upstream's scheduler but for the place of the preempted."""

    def _preempt_request(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super()._preempt_request(request, *args, **kwargs)
        self.waiting.remove_request(request)
        self.waiting.add_request(request)

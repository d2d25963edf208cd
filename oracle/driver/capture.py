"""What upstream warned of while it started up, as kinds.

Upstream logs some warnings once a process; its memory of them is emptied first, so that a scenario's
warnings do not depend on the scenarios before it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from vllm import logger as upstream_logger

from oracle.driver.kinds import warning_kind


class Warnings(logging.Handler):
    """Collects warnings and errors of upstream's loggers, instead of the handlers that print them.

    `replaced`: a class was asked for in the place of upstream's scheduler.
    """

    def __init__(self, *, replaced: bool = False) -> None:
        super().__init__(logging.WARNING)
        self._replaced = replaced
        self._messages: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        self._messages.add(record.getMessage())

    def kinds(self) -> list[str]:
        """Sorted and without repetition; those that are no observation are dropped."""
        kinds = {warning_kind(message, replaced=self._replaced) for message in self._messages}
        return sorted(kind for kind in kinds if kind is not None)


@contextmanager
def captured_warnings(*, replaced: bool = False) -> Iterator[Warnings]:
    root = logging.getLogger("vllm")
    handlers = root.handlers
    capture = Warnings(replaced=replaced)
    upstream_logger._print_warning_once.cache_clear()
    root.handlers = [capture]
    try:
        yield capture
    finally:
        root.handlers = handlers

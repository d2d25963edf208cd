"""What a signal does to a verb: one line and an exit status, from the first moment on. Imports next to nothing.

Until the work that a verb is about begins, a signal ends the process at once, in the middle of whatever is being
imported: there is nothing to save, and no traceback to show. A verb that has something to save takes over with
`noted`. What comes before Python runs this module cannot be caught: such a signal kills the process.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(Exception):
    """A verb has ended because of a signal, and has saved what there was; `number` is the signal's."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


class Noted:
    """The signal that has come, null while none has."""

    number: int | None = None


def end_at_once(*, starting: bool) -> None:
    """From now on the first signal ends the process: a server that is `starting` with 0, as when it serves, and any
    other verb with 128 + the signal's number. An ignored SIGINT stays ignored, but for a server.
    """

    def end(number: int, _frame: object) -> None:
        name = signal.Signals(number).name
        line = f"{name} while starting: ended" if starting else f"interrupted by {name}"
        with contextlib.suppress(OSError):
            os.write(2, f"nullblock: {line}\n".encode())
        os._exit(0 if starting else 128 + number)

    for number in SIGNALS:
        if starting or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)


@contextlib.contextmanager
def noted() -> Iterator[Noted]:
    """The first signal is only noted; the next one does what signals did before, and so they all do afterwards.

    In a thread that gets no signals nothing is ever noted.
    """
    found = Noted()
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(number: int, _frame: object) -> None:
        found.number = number
        restore()

    try:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, note)
    except ValueError:
        yield found
        return
    try:
        yield found
    finally:
        restore()

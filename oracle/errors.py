"""The one exception that the oracle's side raises for what a person can mend.

`oracle/` knows nothing of the harness, so its faults carry their parts (what happened, what to do, the evidence)
and the command line decides the exit code and prints them.
"""

from __future__ import annotations


class OracleFault(Exception):
    """The reference is missing, is not the pin, or could not be set up.

    `hint` says what to do next; `detail` is the evidence (a command and the end of its output), several
    lines that belong above the one-line message.
    """

    def __init__(self, message: str, hint: str | None = None, detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.detail = detail

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message} — {self.hint}"

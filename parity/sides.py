"""Both sides of every level, started when the first scenario needs them and ended with the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from oracle.pins import Pin
from oracle.verify import Measured
from parity.ask import Ask
from parity.interrupts import uninterrupted
from parity.report.progress import RunProgress
from parity.runfile import FOLDER, stamp
from parity.scenario import Case
from parity.serve.side import Times
from parity.side import Side
from parity.subjects.held import HeldSubjects, held_by
from parity.subjects.players import Asked, OraclePlayer, Player, Stage, SubjectPlayer

Pair = tuple[Side[Any], Side[Any]]


class Sides:
    """The sides of one run. `prepare` first; `close` ends every process that was started.

    The reference is the oracle, or the subject `against` where a run holds two subjects against each other.
    """

    def __init__(
        self,
        ask: Ask,
        pin: Pin,
        measured: Measured | None,
        progress: RunProgress,
        held: HeldSubjects | None = None,
    ) -> None:
        held = self.held = held or held_by(ask)
        self._progress = progress
        self._logs = ask.root / FOLDER / "logs" / stamp()
        stage = Stage(ask.root, self._logs, progress, ask.debug)
        self._reference: Player
        if held.against is not None:
            self._reference = SubjectPlayer("oracle", stage, held.against, pin)
        else:
            assert measured is not None, "the oracle must be measured before it plays"
            self._reference = OraclePlayer(stage, pin, measured)
        self._player: Player = SubjectPlayer("subject", stage, held.subject, pin)
        self._serves = False
        self._is_open = False

    @property
    def logs(self) -> Path | None:
        """Where the servers' logs are; null where no server is asked for."""
        return self._logs if self._serves else None

    @property
    def hello(self) -> Mapping[str, Any]:
        """What the reference said of itself."""
        return self._reference.hello

    @property
    def subject_version(self) -> str | None:
        """What the subject's process said that it is; null where it has none."""
        version = self._player.hello.get("version")
        return None if version is None else str(version)

    @property
    def start_seconds(self) -> float:
        return max(self._reference.start_seconds, self._player.start_seconds)

    @property
    def times(self) -> dict[str, Times]:
        return {"oracle": self._reference.times, "subject": self._player.times}

    def prepare(self, plays: Sequence[Asked]) -> None:
        """Get ready for these; whatever a user can mend is found here, while nothing is lost by it.

        Raises UsageError for a subject or a configuration that cannot be had, InconclusiveError for what is missing
        here, OracleError where the oracle's process does not start.
        """
        self._serves = any(case.scenario.level == "serve" for case, _ in plays)
        self._is_open = True
        self._reference.begin(plays)  # its imports go on while the subject's process says who it is
        self._player.begin(plays)
        self._player.prepare(plays)
        self._reference.prepare(plays)

    def pair(self, case: Case, policies: Mapping[str, str]) -> Pair:
        """The oracle and the subject under `policies` for this case's level."""
        return self._reference.side(case, {}), self._player.side(case, policies)

    def lost(self) -> tuple[str | None, str | None]:
        """How a process of the oracle, and of the subject, ended after its last script, unasked; null where none did."""
        return self._reference.lost(), self._player.lost()

    def close(self) -> None:
        if not self._is_open:
            return
        with uninterrupted(), self._progress.ending("ending both sides"), ExitStack() as stack:
            for player in (self._player, self._reference):
                player.call_off()
                stack.callback(player.close)

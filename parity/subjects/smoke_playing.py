"""Smoke from start to end: a subject's doors are opened, golden scenarios are played twice each, and everything is ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from parity.errors import ExitCode, InconclusiveError, ParityError
from parity.oracle_side import find_pin
from parity.report.progress import RunProgress, counted
from parity.runfile import FOLDER, stamp
from parity.scenario import Case
from parity.subjects.adapter import stepping
from parity.subjects.choice import check_sight, sort_out
from parity.subjects.golden import Golden, Header, load_golden
from parity.subjects.players import Asked, Stage, SubjectPlayer
from parity.subjects.smoke import Line, Tried, examine, judge_claims
from parity.subjects.smoke_serve import try_servers
from parity.subjects.subject import Loaded
from parity.suite import load_suite

AUTO_FIT = "auto-fit"  # the one need that depends on what the subject shows
TIMES = 2  # plays of each scenario: a subject must agree with itself


class Smoke(msgspec.Struct, frozen=True):
    """What came of it. `played` are the golden scenarios that the subject was asked, of `golden` that there are."""

    subject: str
    version: str | None
    header: Header
    golden: int
    played: int
    lines: tuple[Line, ...]

    @property
    def faults(self) -> list[Line]:
        """Those of the adapter."""
        return [line for line in self.lines if line.is_adapters_fault]

    @property
    def differences(self) -> list[Line]:
        """The scenarios in which the engine is not as upstream."""
        return [line for line in self.lines if line.what == "scenario" and line.state == "differs"]

    @property
    def is_conclusive(self) -> bool:
        """Whether anything at all was answered."""
        return any(
            line.what in ("door", "scenario") and line.state in ("ok", "differs", "flaky")
            for line in self.lines
        )

    @property
    def exit_code(self) -> ExitCode:
        if not self.is_conclusive:
            return ExitCode.INCONCLUSIVE
        return ExitCode.FINDINGS if self.faults else ExitCode.OK


def smoke(root: Path, loaded: Loaded, progress: RunProgress) -> Smoke:
    """Raises UsageError for a subject that cannot be started as it says, InconclusiveError where nothing was answered."""
    header, golden = load_golden()
    lines: list[Line] = []
    version = None
    asked: list[Golden] = []
    if stepping(loaded.subject):
        check_sight(loaded.subject, stepping(loaded.subject))
        compared, _ = sort_out([_case(item) for item in golden], [loaded])
        names = {case.id for case in compared}
        asked = [item for item in golden if item.id in names]
        stepped, version = _stepped(root, loaded, asked, progress)
        lines += stepped
    if "serve" in loaded.subject.levels:
        lines += _served(root, loaded, progress, is_only=not lines)
    return Smoke(loaded.subject.name, version, header, len(golden), len(asked), tuple(lines))


def _stepped(
    root: Path, loaded: Loaded, asked: Sequence[Golden], progress: RunProgress
) -> tuple[list[Line], str | None]:
    subject = loaded.subject
    if not asked:
        raise InconclusiveError(
            f"{subject.name} claims too little to be asked any golden scenario",
            hint="a schedule needs forced-tokens and step-trace; docs/plug-in.md has all capabilities",
        )
    pin = find_pin(root, None)
    player = SubjectPlayer("subject", Stage(root, root / FOLDER, progress), loaded, pin)
    cases = [_case(item) for item in asked]
    with closing(player):
        try:
            plays: list[Asked] = [(case, {}) for case in cases]
            player.begin(plays)
            player.prepare(plays)
        except InconclusiveError as error:
            if subject.door.process is None:
                raise
            raise InconclusiveError(error.message, hint=_remedy(error)) from None
        with progress.starting(f"playing {counted(len(asked), 'golden scenario')}, {TIMES} times each"):
            tried = [_tried(player, loaded, item, case) for item, case in zip(asked, cases, strict=True)]
        behind = player.lost() or player.lost()  # the second look waits for a moment
        version = player.hello.get("version")
    lines = [Line("door", subject.door.stepping[0], "broken", behind)] if behind else []
    lines += [item.line for item in tried]
    return [*lines, *judge_claims(subject, tried)], None if version is None else str(version)


def _tried(player: SubjectPlayer, loaded: Loaded, golden: Golden, case: Case) -> Tried:
    side = player.side(case, {})
    plays = []
    for _ in range(TIMES):
        side.begin(case.scenario)
        plays.append(side.finish())
        if plays[-1].failure is not None:
            break
        behind = player.lost()
        if behind is not None:
            plays[-1] = msgspec.structs.replace(plays[-1], observation=None, failure=behind)
            break
    return examine(loaded.subject, golden, plays)


def _served(root: Path, loaded: Loaded, progress: RunProgress, *, is_only: bool) -> Iterator[Line]:
    try:
        logs = root / FOLDER / "logs" / stamp()
        yield from try_servers(root, loaded, find_pin(root, None), load_suite(root), logs, progress)
    except InconclusiveError as error:
        if is_only:
            raise
        yield Line("door", loaded.subject.door.serving[0], "unexercised", str(error))


def _remedy(error: ParityError) -> str:
    """What to do about a process that does not start: here nobody is sent to smoke."""
    hint = error.hint or ""
    return hint if "parity smoke" not in hint and hint else "mend the adapter; docs/protocol.md has its lines"


def _case(golden: Golden) -> Case:
    needs = tuple(name for name in golden.needs if name != AUTO_FIT)
    return Case(golden.scenario, golden.id, [], [], None, "parity/golden", 0, needs=needs)

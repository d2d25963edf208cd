"""`run.jsonl`: everything that a run saw, one JSON object a line, and trusted only if its footer is there.

Lines, in this order: one `header`, one `scenario` for each scenario as soon as it is decided, one `footer`
with the counts. While a run goes on it writes to `<name>.part`; the finished file takes the name in one
step, so that a run that is cut short never replaces one that was whole.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import msgspec

from parity import wholefile
from parity.errors import RunFileError
from parity.finding import Decided, NotCompared, Outcome, Plays, RecordVerdict, ScenarioResult, Tie, Verdict
from parity.observation import Observation, decode, plain
from parity.scenario import Level
from parity.subjects.lens import Lens, both, lens_over

FORMAT = 2
PART = ".part"


class Pin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The pin that was asked for, the version it must report, and the version that the oracle did report."""

    name: str
    version: str
    measured: str


class Held(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A subject as it was held: the digest of its file, and what of it was compared in which form.

    `version` is what its process said of itself, null where there is none.
    """

    name: str
    digest: str
    doors: tuple[str, ...]
    mirrors: str | None
    profile: str
    observes: dict[Level, list[str]]
    suite: str
    version: str | None = None


def lens_between(subject: Held, against: Held | None, level: Level) -> Lens:
    """What both sides of a run are seen through at `level`."""
    lens = lens_over(subject.observes, subject.profile, level)
    return lens if against is None else both(lens, lens_over(against.observes, against.profile, level))


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="line", tag="header"):
    """What a run was made of. `records` is the digest of the subject's records, `commit` null outside a git checkout.

    `against` is the subject that was the reference in the place of the oracle, and `pin` null then.
    """

    format: int
    pin: Pin | None
    commit: str | None
    dirty: bool
    machine: str
    records: str
    model_runner: str
    policies: dict[str, str]
    partial: bool
    subject: Held
    against: Held | None = None

    def lens(self, level: Level) -> Lens:
        """What both sides were seen through."""
        return lens_between(self.subject, self.against, level)

    @property
    def is_of_engine(self) -> bool:
        """Whether our own engine was held against the oracle."""
        return self.against is None and "inprocess" in self.subject.doors


class SideLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One side's plays, its observations as plain JSON. Of a play that failed, the raw steps until then."""

    observations: list[Any]
    failure: str | None
    seconds: float
    steps: list[Any] = []


class ScenarioLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="line", tag="scenario"):
    """One scenario: what both sides did, and what was said of it."""

    id: str
    level: str
    scenario_hash: str
    verdict: Verdict
    detail: str | None
    oracle: SideLine
    subject: SideLine
    findings: tuple[Decided, ...]
    ties: tuple[Tie, ...] = ()
    unobserved: int = 0
    is_ahead: bool = False

    @property
    def result(self) -> ScenarioResult:
        return ScenarioResult(
            self.id,
            self.level,
            self.scenario_hash,
            self.verdict,
            self.findings,
            self.detail,
            self.ties,
            self.unobserved,
            self.is_ahead,
        )


class Seconds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the time went, in seconds."""

    oracle: float
    subject: float
    harness: float


class Footer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="line", tag="footer"):
    """A run's end. `scenarios` is the number of scenario lines above it; `not_compared` has the others."""

    scenarios: int
    counts: dict[str, int]
    records: tuple[RecordVerdict, ...]
    verdict: Verdict
    exit_code: int
    seconds: Seconds
    not_compared: tuple[NotCompared, ...] = ()


_LINES: msgspec.json.Decoder[ScenarioLine | Footer] = msgspec.json.Decoder(ScenarioLine | Footer)


class RunFile(msgspec.Struct, frozen=True):
    """A whole run file, as read."""

    header: Header
    scenarios: tuple[ScenarioLine, ...]
    footer: Footer

    def scenario(self, name: str) -> ScenarioLine:
        """The line of one scenario. Raises RunFileError where the run did not play it."""
        for line in self.scenarios:
            if line.id == name:
                return line
        raise RunFileError(f"the run did not play {name}", hint=f"`parity run {name}` does")


class Writer:
    """Writes a run file line by line; as a context manager it closes the file, whole or not.

    Every fault of the disk is a RunFileError that names the file.
    """

    def __init__(self, path: Path, header: Header) -> None:
        self.path = path
        self._part = _part_of(path)  # opened without a buffer: what was written is on its way to the disk
        self._scenarios = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and not is_special(path):
                number = errno.EISDIR if path.is_dir() else errno.EEXIST
                raise OSError(number, os.strerror(number))
        except OSError as error:
            raise _cannot("be written", self._part, error) from None
        try:
            self._file = self._part.open("wb" if self._part == path else "xb", buffering=0)
        except FileExistsError:
            raise RunFileError(
                f"there is an unfinished run in {self._part}, or one that is under way",
                hint="move it away, or name another file with --out",
            ) from None
        except OSError as error:
            raise _cannot("be written", self._part, error) from None
        try:
            self._put(header)
        except RunFileError:
            self._file.close()
            raise

    def scenario(
        self, result: ScenarioResult, oracle: Plays, subject: Plays, lens: Lens | None = None
    ) -> None:
        """One decided scenario, on the disk before this returns; without what `lens` hides."""
        self._put(
            ScenarioLine(
                id=result.id,
                level=result.level,
                scenario_hash=result.scenario_hash,
                verdict=result.verdict,
                detail=result.detail,
                oracle=_side(oracle, lens),
                subject=_side(subject, lens),
                findings=result.decided,
                ties=result.ties,
                unobserved=result.unobserved,
                is_ahead=result.is_ahead,
            )
        )
        self._scenarios += 1

    def finish(self, outcome: Outcome, seconds: Seconds) -> None:
        """The footer; then the file takes its name."""
        self._put(
            Footer(
                scenarios=self._scenarios,
                counts=outcome.counts,
                records=outcome.records,
                verdict=outcome.verdict,
                exit_code=int(outcome.exit_code),
                seconds=seconds,
                not_compared=outcome.not_compared,
            )
        )
        try:
            if self._part != self.path:
                os.fsync(self._file.fileno())
            self._file.close()
            if self._part != self.path:
                os.link(self._part, self.path)  # unlike a rename it never replaces what came there meanwhile
                self._part.unlink()
        except OSError as error:
            raise _cannot("be finished", self.path, error) from None

    @property
    def unfinished(self) -> Path:
        """Where the lines are while the run is not finished."""
        return self._part

    def close(self) -> None:
        """Leaves what was written under the name of an unfinished run; nothing after `finish`."""
        try:
            self._file.close()
        except OSError as error:
            raise _cannot("be closed", self._part, error) from None

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del error, trace
        try:
            self.close()
        except RunFileError:
            if kind is None:
                raise

    def _put(self, line: Header | ScenarioLine | Footer) -> None:
        try:
            wholefile.put(self._file, msgspec.json.encode(line) + b"\n")
        except OSError as error:
            raise _cannot("be written", self._part, error) from None


def read_run(path: Path) -> RunFile:
    """A finished run file. Raises RunFileError: missing, cut short, another format, or a line that is none."""
    try:
        rows = path.read_bytes().splitlines()
    except FileNotFoundError:
        if _part_of(path).exists():
            raise _incomplete(_part_of(path)) from None
        raise RunFileError(f"there is no run file {path}", hint="`parity check` writes one") from None
    except OSError as error:
        raise RunFileError(f"the run file {path} cannot be read: {error.strerror}") from None
    if not rows:
        raise _incomplete(path)
    header = _header(path, rows[0])
    scenarios: list[ScenarioLine] = []
    footer: Footer | None = None
    for number, row in enumerate(rows[1:], start=2):
        if footer is not None:
            raise RunFileError(f"{path}:{number}: there is something after the footer")
        line = _line(path, number, row, is_last=number == len(rows))
        if isinstance(line, Footer):
            footer = line
        else:
            scenarios.append(line)
    if footer is None:
        raise _incomplete(path)
    if footer.scenarios != len(scenarios):
        raise RunFileError(f"{path}: its footer counts {footer.scenarios} scenarios, it has {len(scenarios)}")
    return RunFile(header, tuple(scenarios), footer)


def observations(
    header: Header, line: ScenarioLine, side: Literal["oracle", "subject"]
) -> tuple[Observation, ...]:
    """One side's typed observations. Raises RunFileError where the file holds something else."""
    plays = line.oracle if side == "oracle" else line.subject
    try:
        lens = header.lens(msgspec.convert(line.level, Level))
        return tuple(decode(line.level, lens.complete(raw)) for raw in plays.observations)
    except msgspec.ValidationError as error:
        raise RunFileError(f"{line.id}: the {side}'s observation is none: {error}") from None


def _side(plays: Plays, lens: Lens | None) -> SideLine:
    seen: list[Any] = list(plays.observations)
    if lens is not None and lens.hidden:
        seen = [lens.shown(plain(observation)) for observation in plays.observations]
    return SideLine(seen, plays.failure, plays.seconds, list(plays.steps))


def _header(path: Path, row: bytes) -> Header:
    try:
        raw = msgspec.json.decode(row)
    except msgspec.DecodeError:
        raise RunFileError(f"{path}:1: is no run file (its first line is no JSON)") from None
    if not isinstance(raw, dict) or raw.get("line") != "header":
        raise RunFileError(f"{path}:1: is no run file (its first line is no header)")
    if raw.get("format") != FORMAT:
        hint = "run again with this version"
        raise RunFileError(f"{path}:1: run file format {raw.get('format')!r}, not {FORMAT}", hint=hint)
    try:
        return msgspec.convert(raw, Header)
    except msgspec.ValidationError as error:
        raise RunFileError(f"{path}:1: the header is not as it must be: {error}") from None


def _line(path: Path, number: int, row: bytes, *, is_last: bool) -> ScenarioLine | Footer:
    try:
        return _LINES.decode(row)
    except msgspec.ValidationError as error:
        raise RunFileError(f"{path}:{number}: is no line of a run file: {error}") from None
    except msgspec.DecodeError:
        if is_last:
            raise _incomplete(path) from None
        raise RunFileError(f"{path}:{number}: is no JSON") from None


def _incomplete(path: Path) -> RunFileError:
    return RunFileError(
        f"incomplete run: {path} has no footer", hint="run again; nothing can be concluded from it"
    )


def is_special(path: Path) -> bool:
    """Whether there is a device, a pipe or the like at `path`: something to write to, and never to replace."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _part_of(path: Path) -> Path:
    """Where an unfinished run is written: beside the file, or the place itself where it is a device or a pipe."""
    return path if is_special(path) else path.with_name(path.name + PART)


def _cannot(what: str, path: Path, error: OSError) -> RunFileError:
    reason = error.strerror or type(error).__name__
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    hint = "free some space, or name a file elsewhere with --out" if full else "name another file with --out"
    return RunFileError(f"the run file {path} cannot {what}: {reason}", hint=hint)

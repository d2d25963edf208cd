"""The values that a run passes along: what was played, what was found, and what was said of it.

Every type here is a value. What makes them stands elsewhere: `diff` the differences, `properties` the
broken promises, `judge` the findings, `verdicts` the decisions.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Literal

import msgspec

from parity.errors import ExitCode
from parity.observation import Observation
from parity.scenario import Json

Side = Literal["oracle", "subject"]
Attribution = Literal["mirrored", "ours", "theirs", "differs", "harness"]
DifferenceKind = Literal["greater", "less", "differs", "missing", "extra", "longer", "shorter", "type"]


class Verdict(StrEnum):
    """What a run says of a finding, and so of its scenario; defined from the worst to the best."""

    VOID = "VOID"
    FLAKY = "FLAKY"
    AMBIGUOUS = "AMBIGUOUS"
    NEW = "NEW"
    CHANGED = "CHANGED"
    STALE = "STALE"
    ORPHAN = "ORPHAN"
    EXPIRED = "EXPIRED"
    COVERED = "COVERED"
    MATCH = "MATCH"

    @property
    def severity(self) -> int:
        """0 for the worst verdict, rising towards MATCH."""
        return list(Verdict).index(self)

    @property
    def passes(self) -> bool:
        return self in (Verdict.COVERED, Verdict.MATCH)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of the verdicts; MATCH where there is none."""
    return min(verdicts, key=lambda verdict: verdict.severity, default=Verdict.MATCH)


class Plays(msgspec.Struct, frozen=True):
    """What one side did in its plays of one scenario.

    `failure` says in one line how the side crashed, hung or broke the protocol; a failure makes the
    scenario VOID whatever was observed before it. `seconds` is the side's own time, for reports only.
    `native` is what the side itself put out in each step of its last play, where that was asked for; `steps` are the
    raw steps that it had told of when it failed.
    """

    observations: tuple[Observation, ...]
    failure: str | None = None
    seconds: float = 0.0
    native: tuple[Json, ...] = ()
    steps: tuple[Json, ...] = ()


class Difference(msgspec.Struct, frozen=True):
    """The first place where the subject's observation is not the oracle's.

    `kind` tells what the subject has there: a `greater` or `less` number, a value that `differs`, a
    `missing` or `extra` key (or null on one side), a `longer` or `shorter` list, another `type`. The
    values are those at `path`; a list of objects stands as its length.
    """

    path: str
    oracle: Json
    subject: Json
    kind: DifferenceKind


class Broken(msgspec.Struct, frozen=True):
    """A property that one observation breaks: where, with which value, and the parts of its shape.

    `event`, `kind`, `role` and `events` are the components that `fingerprint` documents.
    """

    property: str
    at: str
    value: Json
    event: str
    kind: str
    role: str
    events: tuple[str, ...]


class Seen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One outcome of a side: how often it came, in a few words, and the properties that it breaks."""

    count: int
    summary: str = ""
    breaks: tuple[str, ...] = ()


class Tie(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A place where the sides chose another token and the oracle's own two best were closer than any float tells.

    `position` is the index in the choice's list of tokens with log probabilities, `gap` the oracle's distance
    between its two best there. Nothing of the choice from there on was compared.
    """

    exchange: str
    choice: int
    position: int
    gap: float


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A difference between the sides, or a property broken on either.

    `at` is the path, `oracle` and `subject` the values there; the digests are over each side's whole
    observation (over the outcome set, where the scenario has one). `shape` is the readable line that
    `fingerprint` is the hash of. `property` joins several names with a comma. The outcomes map the
    digest of each distinct observation to how often it came, and are empty unless the scenario says `outcomes`.
    """

    fingerprint: str
    attribution: Attribution
    property: str | None
    at: str
    oracle: Json
    subject: Json
    oracle_digest: str
    subject_digest: str
    shape: str = ""
    oracle_outcomes: dict[str, Seen] = {}
    subject_outcomes: dict[str, Seen] = {}


class Judged(msgspec.Struct, frozen=True):
    """One scenario after both sides were played and compared, before any record was read.

    `failure` (a side gave no usable observation) and `flaky` (a side disagrees with itself) are one
    line each; where either is set there are no findings. `oracle_digest` and `subject_digest` are null
    then. The outcomes are those of a finding, told here because they are judged without one as well.
    """

    id: str
    level: str
    scenario_hash: str
    findings: tuple[Finding, ...] = ()
    failure: str | None = None
    flaky: str | None = None
    oracle_digest: str | None = None
    subject_digest: str | None = None
    oracle_outcomes: dict[str, Seen] = {}
    subject_outcomes: dict[str, Seen] = {}
    ties: tuple[Tie, ...] = ()


class Decided(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A finding with its verdict, the record that it rests on, and what a person can do next.

    Where the verdict is STALE, `finding` is the recorded one that no longer shows.
    """

    finding: Finding
    record: str | None
    verdict: Verdict
    hint: str | None


class ScenarioResult(msgspec.Struct, frozen=True):
    """A scenario's verdict, the worst of its findings'; `detail` says why it is VOID or FLAKY.

    `unobserved` is the number of values that were not compared because the subject does not show them. What `is_ahead`
    is newer than the suite that the subject answers for: it is shown, and decides nothing.
    """

    id: str
    level: str
    scenario_hash: str
    verdict: Verdict
    decided: tuple[Decided, ...]
    detail: str | None = None
    ties: tuple[Tie, ...] = ()
    unobserved: int = 0
    is_ahead: bool = False


class NotCompared(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A scenario that was not played, and what is missing for it.

    unsupported  the subject does not claim what the scenario needs
    unobserved   it may well be able to, but the server that runs was not started so
    """

    id: str
    level: str
    why: Literal["unsupported", "unobserved"]
    missing: tuple[str, ...]


class RecordVerdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a run says of a record where no played scenario says it already."""

    id: str
    verdict: Verdict
    detail: str


class Outcome(msgspec.Struct, frozen=True):
    """A whole run, decided. `counts` has every verdict that occurs, of scenarios and of `records`.

    What `is_ahead` of the subject's suite stands in `scenarios` and in no count.
    """

    scenarios: tuple[ScenarioResult, ...]
    records: tuple[RecordVerdict, ...]
    counts: dict[str, int]
    verdict: Verdict
    exit_code: ExitCode
    not_compared: tuple[NotCompared, ...] = ()

"""What a record says, as values: the front matter's fields, and the prose's sections.

The front matter is for machines and for people; the prose is for people alone. A record's id is its
path below `records/`, without the ending: `<area>/<slug>`.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from parity.scenario import Json
from parity.suite import VERSION_SYNTAX

Kind = Literal["finding", "falsified"]
State = Literal["proposed", "accepted", "retired", "withdrawn"]
Decision = Literal["mirror", "diverge", "owed", "unsupported", "undecided"]
Whose = Literal["mirrored", "ours", "theirs", "differs"]

NEEDS_EXPIRY: tuple[Decision, ...] = ("owed", "unsupported", "undecided")
EXACT = "exact"  # the profile of a record whose scope names none
RATE = re.compile(r"(\d+) of (\d+)")
MAX_EXEMPLARS = 3  # of one mirrored fingerprint, which is covered in every scenario that shows it
MAX_INLINE = 3  # exemplars in the record itself; those beyond it live beside it


class Stamp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who did something, and on which day. `solo` marks a decision by the one who proposed it."""

    on: datetime.date
    by: str
    solo: bool = False


class Recorded(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One outcome of a side: its rate, `k of n` plays, what it is in words, and the properties that it breaks."""

    rate: str
    summary: str = ""
    breaks: list[str] = []

    @property
    def counts(self) -> tuple[int, int]:
        """(seen, plays); (0, 0) where the rate is none, which is for the lint."""
        found = RATE.fullmatch(self.rate)
        return (int(found[1]), int(found[2])) if found else (0, 0)


class Exemplar(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A scenario in which the finding shows, with what was seen there.

    `fingerprint` may be left out where the record has one only. Both digests, over the whole
    observations, are required of a difference. The outcomes by digest belong to a scenario that says
    `outcomes`; `[seen, plays]` is the short form of one without words. `runs` are the stamps of the runs
    whose plays are in the rates.
    """

    scenario: str
    scenario_hash: str
    at: str
    oracle: Json
    subject: Json
    property: str | None = None
    fingerprint: str | None = None
    oracle_digest: str | None = None
    subject_digest: str | None = None
    oracle_outcomes: dict[str, Recorded | tuple[int, int]] = {}
    subject_outcomes: dict[str, Recorded | tuple[int, int]] = {}
    runs: list[str] = []


class Diverging(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the engine's other choice, `Front.policy`, yields in a scenario. Every full check replays it."""

    scenario: str
    at: str
    oracle: Json
    subject: Json
    attribution: Whose
    fingerprint: str
    oracle_digest: str
    subject_digest: str
    scenario_hash: str | None = None
    property: str | None = None


class OracleRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The pin that the record was measured on, and the releases known to behave so (null: not measured)."""

    pin: str
    first: str | None = None
    last: str | None = None


class Anchor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cited place, `path.py::Qualified.symbol`, with the digest of that symbol's source."""

    at: str
    digest: str | None

    @property
    def path(self) -> str:
        return self.at.partition("::")[0]

    @property
    def symbol(self) -> str:
        return self.at.partition("::")[2]

    @property
    def is_upstreams(self) -> bool:
        return self.path.startswith("vllm/")


class Front(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A record's front matter. A falsified hypothesis has a `scenario` in place of a finding's fields."""

    title: str
    state: State
    scope: dict[str, str]
    oracle: OracleRef
    anchors: list[Anchor]
    references: list[str]
    owner: str
    proposed: Stamp
    decided: Stamp | None
    expires: datetime.date | None
    on_bump: str
    kind: Kind = "finding"
    decision: Decision | None = None
    fingerprints: list[str] = []
    attribution: Whose | None = None
    exemplars: list[Exemplar] = []
    policy: str | None = None
    diverging: list[Diverging] = []
    scenario: str | None = None
    reason: str | None = None

    @property
    def profile(self) -> str:
        """The profile that its subject was compared in when it was measured."""
        return self.scope.get("profile", EXACT)

    @property
    def suite(self) -> str | None:
        """The version of the suite whose baseline it is of; null where no baseline wrote it, or it is no version."""
        suite = self.scope.get("suite")
        return suite if suite is not None and VERSION_SYNTAX.fullmatch(suite) else None


class Section(msgspec.Struct, frozen=True):
    """A `## ` heading with the text under it; `line` is the heading's, from 1."""

    title: str
    body: str
    line: int


class Record(msgspec.Struct, frozen=True):
    """One record as read: its exemplars are those of the file and of the one beside it together."""

    id: str
    path: str  # relative to the project's root
    front: Front
    sections: tuple[Section, ...] = ()

    @property
    def area(self) -> str:
        return self.id.split("/", 1)[0]

    @property
    def covers(self) -> bool:
        """Only an accepted record of a finding covers anything."""
        return self.front.state == "accepted" and self.front.kind == "finding"

    @property
    def is_undecided(self) -> bool:
        """Whether it covers findings that nobody decided yet."""
        return self.covers and self.front.decision == "undecided"

    @property
    def scenarios(self) -> tuple[str, ...]:
        """Every scenario that the record names, without repetition."""
        front = self.front
        named = [entry.scenario for entry in front.exemplars]
        named += [entry.scenario for entry in front.diverging]
        if front.scenario is not None:
            named.append(front.scenario)
        return tuple(dict.fromkeys(named))

    @property
    def policy(self) -> tuple[str, str] | None:
        """The policy's name and value, or null; a malformed one is for the lint."""
        if self.front.policy is None:
            return None
        name, _, value = self.front.policy.partition("=")
        return name, value


def fingerprint_of(front: Front, entry: Exemplar) -> str:
    """The fingerprint that an exemplar shows: its own, or the record's only one."""
    if entry.fingerprint is not None:
        return entry.fingerprint
    return front.fingerprints[0] if front.fingerprints else ""


def in_words(outcomes: Mapping[str, Recorded | tuple[int, int]]) -> dict[str, Recorded]:
    """Recorded outcomes with the short form written out."""
    return {
        key: outcome if isinstance(outcome, Recorded) else Recorded(f"{outcome[0]} of {outcome[1]}")
        for key, outcome in outcomes.items()
    }

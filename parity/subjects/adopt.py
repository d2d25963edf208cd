"""The baseline of a newcomer: what a run found and nobody decided, as one undecided record a fingerprint.

Whether the baseline turns a check green is not guessed: every scenario is decided again with the records that would
be written, by the code of the check itself, and whatever they do not cover is told.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count

import msgspec

from parity.errors import ExitCode, UsageError
from parity.finding import Decided, ScenarioResult, Verdict
from parity.records.again import decided_again
from parity.records.draft import Measured, draft, title_of
from parity.records.record import MAX_EXEMPLARS, Exemplar, Record, Stamp
from parity.records.undecided import PREFIX
from parity.runlog import RunFile, ScenarioLine
from parity.scenario import Case
from parity.suite import is_newer, version_of

SHORT = 8  # digits of a fingerprint that name its record


class Terms(msgspec.Struct, frozen=True):
    """On which terms the findings are taken: by whom, until when, and up to which version of the suite."""

    owner: str
    today: datetime.date
    expires: datetime.date
    suite: str


class Group(msgspec.Struct, frozen=True):
    """A record of the baseline. It covers `scenarios`, of which a mirrored finding names a few only."""

    record: Record
    scenarios: tuple[str, ...]


class Left(msgspec.Struct, frozen=True):
    """What of a run is not adopted, and will not pass a check either."""

    scenario: str
    verdict: Verdict
    reason: str
    is_harness: bool = False


class Adoption(msgspec.Struct, frozen=True):
    """What becomes of a run's findings. `covered` counts those that accepted records cover, `ahead` newer scenarios.

    There are no groups where a scenario said nothing: what it hides could not be adopted once there is a baseline.
    """

    groups: tuple[Group, ...]
    left: tuple[Left, ...]
    covered: int
    ahead: int

    @property
    def findings(self) -> int:
        """How many are adopted."""
        return sum(len(group.scenarios) for group in self.groups)

    @property
    def scenarios(self) -> int:
        """In how many scenarios something is adopted."""
        return len({name for group in self.groups for name in group.scenarios})

    @property
    def is_conclusive(self) -> bool:
        """Whether every scenario said something."""
        return self.exit_code in (ExitCode.OK, ExitCode.FINDINGS)

    @property
    def exit_code(self) -> ExitCode:
        """What a check will say of the subject."""
        if any(item.is_harness for item in self.left):
            return ExitCode.HARNESS
        if any(item.verdict is Verdict.VOID for item in self.left):
            return ExitCode.INCONCLUSIVE
        return ExitCode.FINDINGS if self.left else ExitCode.OK


def baseline_of(records: Sequence[Record]) -> str | None:
    """The newest version of the suite that has a baseline; null where there is none."""
    suites = [record.front.suite for record in records if record.is_undecided]
    return max((suite for suite in suites if suite is not None), key=version_of, default=None)


def check_is_new(records: Sequence[Record], suite: str) -> None:
    """Raises UsageError where that version of the suite has a baseline."""
    there = baseline_of(records)
    if there is not None and version_of(there) >= version_of(suite):
        number = sum(record.is_undecided for record in records)
        raise UsageError(
            f"there is a baseline of suite {there} with {number} undecided records, and it may only shrink",
            hint="`parity next` says which to decide first; a newer suite has a baseline of its own (--suite V)",
        )


def check_run(run: RunFile, cases: Mapping[str, Case]) -> None:
    """Raises UsageError where a run is no ground for a baseline: it is of the whole suite as it is now."""
    header = run.header
    fault = None
    if header.against is not None:
        fault = f"held it against {header.against.name}, and a baseline is about upstream"
    elif header.policies:
        fault = "was made under a policy"
    elif header.partial:
        fault = "played a part of the suite only"
    for line in () if fault else run.scenarios:
        if line.id not in cases:
            fault = f"played {line.id}, which the suite does not have"
        elif cases[line.id].hash != line.scenario_hash:
            fault = f"played {line.id} as it was before it changed"
    if fault is not None:
        raise UsageError(f"the run {fault}", hint="leave --from out, and the whole suite is played")


def adopt(run: RunFile, records: Sequence[Record], cases: Mapping[str, Case], terms: Terms) -> Adoption:
    """The baseline of a run, with the `records` that there are already."""
    there = baseline_of(records)
    profile = run.header.subject.profile
    lines = [line for line in run.scenarios if not is_newer(cases[line.id], terms.suite)]
    before = decided_again(lines, records, terms.today, profile)
    open_: dict[str, list[Measured]] = {}
    left: list[Left] = []
    for line in lines:
        late = None if there is None or is_newer(cases[line.id], there) else there
        for item in before[line.id].decided:
            if item.verdict.passes:
                continue
            reason = _why_not(item, late)
            if reason is not None:
                left.append(_left(line, item, reason))
                continue
            measured = Measured(run.header, line, item.finding)
            open_.setdefault(item.finding.fingerprint, []).append(measured)
    groups, refused = _groups(open_, {record.id for record in records}, terms)
    left += refused
    after = decided_again(lines, [*records, *(group.record for group in groups)], terms.today, profile)
    left += _still_open(lines, after, {item.scenario for item in left})
    adoption = Adoption(
        groups=tuple(groups),
        left=tuple(sorted([*left, *_lost(lines, before)], key=lambda item: item.scenario)),
        covered=sum(item.verdict.passes for result in before.values() for item in result.decided),
        ahead=len(run.scenarios) - len(lines),
    )
    return adoption if adoption.is_conclusive else msgspec.structs.replace(adoption, groups=())


def _why_not(item: Decided, late: str | None) -> str | None:
    """Why a finding that does not pass is none to adopt; null where it is one. `late` is the suite of its baseline."""
    if item.finding.attribution == "harness":
        return item.hint
    if item.verdict is Verdict.NEW:
        return (
            None
            if late is None
            else f"came after the baseline of suite {late}: decide it, or mend the subject"
        )
    return f"{item.record}: {item.hint}" if item.record else item.hint


def _left(line: ScenarioLine, item: Decided, reason: str) -> Left:
    return Left(line.id, item.verdict, reason, item.finding.attribution == "harness")


def _lost(lines: Sequence[ScenarioLine], before: Mapping[str, ScenarioResult]) -> Iterator[Left]:
    for line in lines:
        result = before[line.id]
        if result.detail is not None:
            yield Left(line.id, result.verdict, result.detail)


def _still_open(
    lines: Sequence[ScenarioLine], after: Mapping[str, ScenarioResult], known: set[str]
) -> Iterator[Left]:
    """What the baseline does not cover although it names the scenario: what a record has no form for."""
    for line in lines:
        for item in after[line.id].decided:
            if not item.verdict.passes and line.id not in known:
                yield _left(line, item, item.hint or "no record can hold it")


def _groups(
    open_: Mapping[str, Sequence[Measured]], taken: set[str], terms: Terms
) -> tuple[list[Group], list[Left]]:
    groups: list[Group] = []
    left: list[Left] = []
    for fingerprint, found in open_.items():
        shown: dict[str, tuple[Measured, Exemplar]] = {}
        for measured in found:
            try:
                shown.setdefault(measured.line.id, (measured, measured.exemplar()))
            except UsageError as error:
                left.append(Left(measured.line.id, Verdict.NEW, error.message))
        if shown:
            id_ = _free_id(next(iter(shown)), fingerprint, taken)
            taken = {*taken, id_}
            groups.append(Group(_record(id_, list(shown.values()), terms), tuple(shown)))
    return groups, left


def _record(id_: str, shown: Sequence[tuple[Measured, Exemplar]], terms: Terms) -> Record:
    measured = shown[0][0]
    exemplars = [exemplar for _, exemplar in shown]
    is_mirrored = measured.finding.attribution == "mirrored"
    front = draft(measured, by=terms.owner, today=terms.today, anchors=[])
    front = msgspec.structs.replace(
        front,
        title=PREFIX + title_of(measured.finding),
        state="accepted",
        exemplars=exemplars[:MAX_EXEMPLARS] if is_mirrored else exemplars,
        scope={**front.scope, "suite": terms.suite},
        decided=Stamp(terms.today, terms.owner, solo=True),
        expires=terms.expires,
        on_bump="Decide it, or measure it again on the new pin: nobody has looked at it on this one",
    )
    return Record(id=id_, path=f"{id_}.md", front=front)


def _free_id(scenario: str, fingerprint: str, taken: set[str]) -> str:
    """The record's id, by the first digits, and a number where a record has those."""
    short = f"{scenario.partition('/')[0]}/undecided-{fingerprint.partition(':')[2][:SHORT]}"
    numbered = (f"{short}-{number}" for number in count(2))
    return next(name for name in chain([short], numbered) if name not in taken)

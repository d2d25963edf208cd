"""A run as a terminal report: the pin as measured, one line a scenario that is not MATCH, grouped, and what to do next."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from parity.finding import Decided, Finding, Outcome, RecordVerdict, ScenarioResult, Verdict
from parity.report.progress import counted

STYLES = {
    Verdict.MATCH: "green",
    Verdict.COVERED: "cyan",
    Verdict.VOID: "bold magenta",
    Verdict.FLAKY: "bold magenta",
}
MAX_VALUE = 80  # characters of a value in a line

Line = tuple[ScenarioResult, Decided]


def report(head: str, outcome: Outcome, foot: Sequence[str], records: str = "records") -> RenderableType:
    """The whole report. `head` says what was held against what, `foot` what is to be said at the end.

    `records` is the folder of the subject's records, as people are shown it.
    """
    parts: list[RenderableType] = [Text(head, style="bold")]
    for lines in _groups(outcome.scenarios):
        parts += [Text(""), _group_head(lines, records), *(_line(line) for line in lines)]
    lost = [result for result in outcome.scenarios if result.detail is not None]
    if lost:
        parts += [Text(""), Text("nothing could be concluded", style="bold magenta")]
        parts += [_told(result.verdict, f"{result.id}  {result.detail}") for result in lost]
    if outcome.records:
        parts += [Text(""), Text("records", style="bold")]
        parts += [_record(verdict) for verdict in outcome.records]
    tied = ties(outcome.scenarios)
    if tied is not None:
        parts += [Text(""), Text(tied)]
    parts += [Text(""), counts(outcome), *(Text(line) for line in foot)]
    return Group(*parts)


def counts(outcome: Outcome) -> Text:
    """The count of every verdict that occurs, the worst first, and how many scenarios were examined."""
    examined = sum(result.verdict is not Verdict.VOID for result in outcome.scenarios if not result.is_ahead)
    text = Text(f"{examined} examined: ")
    for index, verdict in enumerate(verdict for verdict in Verdict if verdict.value in outcome.counts):
        text.append(", " if index else "")
        text.append(f"{outcome.counts[verdict.value]} {verdict.value}", style=_style(verdict))
    return text


def ties(results: Sequence[ScenarioResult]) -> str | None:
    """One line on the choices that were compared up to a tie only, with the one that is least of a tie."""
    found = [(tie.gap, result.id, tie) for result in results for tie in result.ties]
    if not found:
        return None
    gap, name, tie = max(found, key=lambda item: item[:2])
    scenarios = len({where for _, where, _ in found})
    return (
        f"ties: {counted(len(found), 'choice')} in {counted(scenarios, 'scenario')} went another way where the oracle's two"
        f" best tokens are nearly equal, and were compared up to there; the widest gap is {gap:.1e}"
        f" ({name}, {tie.exchange}, choice {tie.choice}, token {tie.position})"
    )


def next_command(outcome: Outcome, run_file: str) -> str | None:
    """The one command that helps most now; null when there is nothing to do.

    What is ours is looked at first: a record is for what was understood, not for a fault that can be mended.
    """
    for verdict in Verdict:
        for result in outcome.scenarios:
            if result.verdict is not verdict or verdict.passes:
                continue
            decided = next((item for item in result.decided if item.verdict is verdict), None)
            if verdict is Verdict.VOID:
                is_theirs = (result.detail or "").startswith("the oracle")
                return "parity oracle verify" if is_theirs else None  # a subject's log is named above
            if verdict is Verdict.NEW and decided is not None and decided.hint is None and _is_known(decided):
                return f"parity record new --from '{run_file}#{result.id}'"
            return f"parity show {result.id} --run {run_file}"
        for record in outcome.records:
            if record.verdict is verdict and not verdict.passes:
                return f"parity record show {record.id}"
    return None


def _is_known(decided: Decided) -> bool:
    """Whether both sides alike, or upstream alone, break a promise: nothing that our engine could mend."""
    return decided.finding.attribution in ("mirrored", "theirs")


def _groups(results: Sequence[ScenarioResult]) -> Iterator[list[Line]]:
    """Findings of one fingerprint, verdict and record together; the worst group first."""
    groups: dict[tuple[int, str, str], list[Line]] = {}
    for result in results:
        for decided in result.decided:
            key = (decided.verdict.severity, decided.finding.fingerprint, decided.record or "")
            groups.setdefault(key, []).append((result, decided))
    for key in sorted(groups):
        yield groups[key]


def _group_head(lines: Sequence[Line], records: str) -> Text:
    decided = lines[0][1]
    finding = decided.finding
    text = Text()
    text.append(f"{decided.verdict.value}  ", style=_style(decided.verdict))
    text.append(f"{finding.fingerprint}  {finding.attribution}", style="bold")
    if finding.property:
        text.append(f"  {finding.property}")
    if decided.record:
        text.append(f"  {records}/{decided.record}.md", style="dim")
    return text


def _line(line: Line) -> Text:
    result, decided = line
    text = Text(f"  {result.id}  {decided.finding.at}  {_values(decided.finding)}")
    if decided.hint:
        text.append(f"  ({decided.hint})", style="dim")
    return text


def _values(finding: Finding) -> str:
    left, right = _value(finding.oracle), _value(finding.subject)
    return f"both {left}" if left == right else f"oracle {left}, subject {right}"


def _value(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 1] + "…"


def _record(verdict: RecordVerdict) -> Text:
    return _told(verdict.verdict, f"{verdict.id}  {verdict.detail}")


def _told(verdict: Verdict, what: str) -> Text:
    text = Text("  ")
    text.append(verdict.value, style=_style(verdict))
    return text.append(f"  {what}")


def _style(verdict: Verdict) -> str:
    return STYLES.get(verdict, "bold red")

"""What a run did not compare, in a few lines: what is not shown, not supported, or newer than what is answered for."""

from __future__ import annotations

from collections import Counter

import msgspec

from parity.finding import Outcome, Verdict
from parity.report.progress import counted
from parity.runlog import Held, lens_between
from parity.scenario import Level

MAX_NAMES = 8


def sight(subject: Held, against: Held | None, outcome: Outcome) -> list[str]:
    """The lines; none where everything was compared exactly."""
    return [*_unobserved(subject, against, outcome), *_not_compared(outcome), *_ahead(subject, outcome)]


def _unobserved(subject: Held, against: Held | None, outcome: Outcome) -> list[str]:
    lines = []
    for level in dict.fromkeys(result.level for result in outcome.scenarios):
        results = [result for result in outcome.scenarios if result.level == level]
        lens = lens_between(subject, against, msgspec.convert(level, Level))
        if not lens.is_clear:
            told = []
            if lens.hidden:
                values = sum(result.unobserved for result in results)
                told.append(f"{counted(values, 'value')} unobserved ({_few(sorted(lens.hidden))})")
            if lens.unjudged:
                told.append(f"not judged: {', '.join(lens.unjudged)}")
            rest = f": {'; '.join(told)}" if told else ""
            lines.append(f"level {level}, profile {lens.profile}{rest}")
    return lines


def _not_compared(outcome: Outcome) -> list[str]:
    lines = []
    for why in ("unsupported", "unobserved"):
        found = [item for item in outcome.not_compared if item.why == why]
        if found:
            reasons = Counter(reason for item in found for reason in item.missing)
            told = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common(MAX_NAMES))
            more = "" if len(reasons) <= MAX_NAMES else f" and {len(reasons) - MAX_NAMES} more reasons"
            lines.append(f"{counted(len(found), 'scenario')} {why}, not played: {told}{more}")
    return lines


def _ahead(subject: Held, outcome: Outcome) -> list[str]:
    ahead = [result for result in outcome.scenarios if result.is_ahead]
    if not ahead:
        return []
    counts = Counter(result.verdict for result in ahead)
    told = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])
    return [
        f"{counted(len(ahead), 'scenario')} newer than suite {subject.suite}, shown and not judged: {told}"
    ]


def _few(names: list[str]) -> str:
    return ", ".join(names[:MAX_NAMES]) + (
        f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    )

"""What is told of what a run did not compare: a few lines, and none where everything was."""

from __future__ import annotations

from typing import Any

import msgspec

from parity.finding import NotCompared, Outcome, Verdict
from parity.report.sight import MAX_NAMES, sight
from parity.subjects.fields import FIELDS
from parity.verdicts import decide
from tests.parity.held import ENGINE, OTHER
from tests.records.miniature import context, judged


def outcome(*levels: str, **changes: Any) -> Outcome:
    """One MATCH of each level, with a number of values that were not seen."""
    whole = decide([judged(f"auto-fit/{at}", level=level) for at, level in enumerate(levels)], [], context())
    scenarios = tuple(
        msgspec.structs.replace(one, unobserved=10**at) for at, one in enumerate(whole.scenarios)
    )
    return msgspec.structs.replace(whole, **{"scenarios": scenarios, **changes})


def test_where_everything_was_compared_exactly_nothing_is_said() -> None:
    assert sight(ENGINE, None, outcome("plan", "schedule", "serve")) == []


def test_what_is_hidden_is_named_a_level_with_what_is_not_judged_for_it() -> None:
    observes: Any = {
        "plan": [name for name in FIELDS["plan"] if name not in ("warnings", "usable_blocks")],
        "schedule": list(FIELDS["schedule"]),
    }
    subject = msgspec.structs.replace(ENGINE, observes=observes)

    assert sight(subject, None, outcome("plan", "plan", "schedule", "serve")) == [
        "level plan, profile exact: 11 values unobserved (usable_blocks, warnings);"
        " not judged: serves-advertised-length, label-within-usable"
    ]


def test_a_profile_is_told_at_the_levels_of_which_it_leaves_something_open() -> None:
    renamed = msgspec.structs.replace(OTHER, profile="renamed")
    totals = msgspec.structs.replace(OTHER, profile="aggregate")

    assert sight(OTHER, None, outcome("plan", "schedule", "serve")) == [
        "level schedule, profile counts: not judged: no-block-leak"
    ]
    assert sight(renamed, None, outcome("plan", "schedule", "serve")) == ["level schedule, profile renamed"]
    assert [line.split(":")[0] for line in sight(totals, None, outcome("plan", "schedule", "serve"))] == [
        "level schedule, profile aggregate",
        "level serve, profile aggregate",
    ]


def test_between_two_subjects_what_either_hides_is_told() -> None:
    shown: Any = {"plan": [name for name in FIELDS["plan"] if name != "warnings"]}
    against = msgspec.structs.replace(OTHER, profile="renamed", observes=shown)

    lines = sight(ENGINE, against, outcome("plan"))

    assert lines == ["level plan, profile renamed: 1 value unobserved (warnings)"]
    assert sight(against, ENGINE, outcome("plan")) == lines


def test_many_fields_are_a_few_names_and_a_number() -> None:
    subject = msgspec.structs.replace(ENGINE, observes={"schedule": ["end.kind", "end.outputs"]})

    (line,) = sight(subject, None, outcome("schedule"))

    hidden = sorted(set(FIELDS["schedule"]) - {"end.kind", "end.outputs"})
    assert f"({', '.join(hidden[:MAX_NAMES])} and {len(hidden) - MAX_NAMES} more); not judged" in line


def test_what_was_not_played_is_counted_by_reason_the_most_frequent_first() -> None:
    others = (
        NotCompared("a/a", "schedule", "unsupported", ("resets",)),
        NotCompared("a/b", "schedule", "unsupported", ("priority", "resets")),
        NotCompared("a/c", "serve", "unobserved", ("a fresh server",)),
    )

    assert sight(ENGINE, None, outcome("plan", not_compared=others)) == [
        "2 scenarios unsupported, not played: resets 2, priority 1",
        "1 scenario unobserved, not played: a fresh server 1",
    ]


def test_of_many_reasons_the_rest_is_a_number() -> None:
    reasons = tuple(f"flag {at}" for at in range(MAX_NAMES + 2))

    (line,) = sight(
        ENGINE, None, outcome("plan", not_compared=(NotCompared("a/a", "serve", "unsupported", reasons),))
    )

    assert line.endswith(f"flag {MAX_NAMES - 1} 1 and 2 more reasons")


def test_what_is_newer_is_shown_by_verdict_and_said_to_decide_nothing() -> None:
    whole = outcome("plan", "plan", "plan")
    verdicts = (Verdict.MATCH, Verdict.NEW, Verdict.MATCH)
    ahead = tuple(
        msgspec.structs.replace(one, is_ahead=at > 0, verdict=verdict)
        for at, (one, verdict) in enumerate(zip(whole.scenarios, verdicts, strict=True))
    )

    assert sight(ENGINE, None, msgspec.structs.replace(whole, scenarios=ahead)) == [
        "2 scenarios newer than suite 0.1, shown and not judged: 1 NEW, 1 MATCH"
    ]

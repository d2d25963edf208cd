"""The objects that `--json` prints. Scripts rely on them, so their form is fixed: docs/verdicts.md shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from parity.finding import Decided, Outcome, ScenarioResult
from parity.observation import Observation, plain
from parity.outcomes import difference_of
from parity.runlog import Held, Pin, Seconds, lens_between
from parity.scenario import Json, Level
from parity.serve.side import Times
from parity.subjects.lens import Lens


def run_object(
    outcome: Outcome,
    *,
    pin: Pin | None,
    partial: bool,
    seconds: Seconds,
    servers: Mapping[str, Times],
    subject: Held,
    against: Held | None,
) -> dict[str, Any]:
    """What `parity run --json` and `parity check --json` print."""
    return {
        "pin": msgspec.to_builtins(pin),
        "partial": partial,
        "counts": dict(outcome.counts),
        "seconds": msgspec.to_builtins(seconds),
        "servers": msgspec.to_builtins(servers),
        "subject": msgspec.to_builtins(subject),
        "against": msgspec.to_builtins(against),
        "scenarios": [_scenario(result, subject, against) for result in outcome.scenarios],
        "not_compared": msgspec.to_builtins(outcome.not_compared),
        "records": [{"id": record.id, "verdict": record.verdict.value} for record in outcome.records],
    }


def show_object(
    name: str, oracle: Observation, subject: Observation, lens: Lens, native: Sequence[Json] | None = None
) -> dict[str, Any]:
    """What `parity show SCENARIO --json` prints, without what `lens` hides; `native` is there with --debug only."""
    found = difference_of(oracle, subject)
    shown = {
        "id": name,
        "oracle": lens.shown(plain(oracle)),
        "subject": lens.shown(plain(subject)),
        "first_difference": None if found is None else found.path,
    }
    return shown if native is None else {**shown, "native": list(native)}


def _scenario(result: ScenarioResult, subject: Held, against: Held | None) -> dict[str, Any]:
    return {
        "id": result.id,
        "level": result.level,
        "verdict": result.verdict.value,
        "findings": [_finding(item) for item in result.decided],
        "ties": msgspec.to_builtins(result.ties),
        "profile": lens_between(subject, against, msgspec.convert(result.level, Level)).profile,
        "unobserved": result.unobserved,
        "ahead": result.is_ahead,
    }


def _finding(item: Decided) -> dict[str, Any]:
    finding = item.finding
    return {
        "fingerprint": finding.fingerprint,
        "attribution": finding.attribution,
        "property": finding.property,
        "at": finding.at,
        "oracle": finding.oracle,
        "subject": finding.subject,
        "record": item.record,
        "verdict": item.verdict.value,
    }
